import re

from kafscale.console import openapi
from kafscale.console.routes import ROUTES


def test_every_route_has_its_operation_with_an_effect() -> None:
    paths = openapi.document("1")["paths"]
    found = {
        operation["operationId"]: operation["x-kafscale-effect"]
        for operations in paths.values()
        for operation in operations.values()
    }
    assert found == {route.name: route.effect for route in ROUTES}


def test_every_reference_of_the_document_leads_somewhere() -> None:
    document = openapi.document("1")
    named = set(re.findall(r"#/components/schemas/(\w+)", repr(document)))
    assert named <= set(document["components"]["schemas"])


def test_the_page_knows_every_struct_and_every_route() -> None:
    text = openapi.type_declarations()
    declared = set(re.findall(r"export interface (\w+)", text)) | {"Int64", "Record", "Blob"}
    used = set(re.findall(r"\b([A-Z]\w+)\b", re.sub(r"/\*\*.*?\*/|//.*|\"[^\"]*\"", "", text)))
    assert used <= declared
    assert all(f'"{route.method} {route.path}"' in text for route in ROUTES)


def test_what_the_page_may_leave_out_is_optional_and_offsets_are_text() -> None:
    text = openapi.type_declarations()
    assert "  check_only?: boolean" in text
    assert "  offset: Int64" in text
    assert "  after: string | null" in text
