"""Every page, light and dark, wide and narrow, in everyday and in hostile words."""

from __future__ import annotations

from tests.browser.conftest import OpenTab, Place, group
from tests.browser.pages import each_page
from tests.browser.tabs import NARROW, WIDE, Tab


@group("pages")
@each_page
async def test_a_page_is_easy_to_use(everyday: Place, visit: OpenTab, path: str) -> None:
    """Both themes at two widths, from one visit."""
    tab = await _open(everyday, visit, path)
    wrong = await tab.too_wide()
    for width in (WIDE, NARROW):
        await tab.page.set_viewport_size({"width": width, "height": 900})
        await tab.page.emulate_media(color_scheme="light")
        wrong += [f"{width}: {one}" for one in await tab.axe()]
        await tab.page.emulate_media(color_scheme="dark")
        wrong += [f"{width}, dark: {one}" for one in await tab.axe("color-contrast")]
    assert not wrong


@group("hostile pages")
@each_page
async def test_hostile_words_do_nothing(hostile: Place, visit: OpenTab, path: str) -> None:
    """No script runs, no request leaves (every tab is watched for it), and no name is too long."""
    tab = await _open(hostile, visit, path)
    wrong = await tab.too_wide()

    assert not await tab.page.evaluate("() => 'stolen' in window")
    assert not wrong


async def _open(place: Place, visit: OpenTab, path: str) -> Tab:
    tab: Tab = await visit(place)
    answer = await tab.open(place.world.path(path))
    assert answer.status in (200, 404, 422)
    return tab
