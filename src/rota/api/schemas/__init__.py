"""The models of requests and responses, as OpenAPI describes them."""
