"""What a page is, and the parts that it is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

Body = list[Any]


@dataclass(frozen=True)
class Page:
    """`live` has what may change while a campaign runs, by the name of its part: text, figure or rows."""

    title: str
    body: Body
    live: dict[str, Any] = field(default_factory=dict)


@dataclass
class Parts:
    """Collects the live parts of a page while it is put together."""

    live: dict[str, Any] = field(default_factory=dict)

    def text(self, name: str, children: Any, **more: Any) -> Any:
        """A block whose content follows the campaign. Screen readers are not told of every change."""
        from dash import html

        self.live[name] = children
        return html.Div(children, id=_id(name, "children"), **more)

    def figure(
        self,
        name: str,
        figure: Figure,
        title: str,
        caption: str = "",
        height_px: int | None = None,
        width_px: int = 0,
    ) -> Any:
        """A figure with its title and what it shows in words."""
        self.live[name] = figure
        return figure_box(figure, title, caption, height_px, _id(name, "figure"), width_px)

    def table(
        self, name: str, rows: Sequence[dict[str, Any]], columns: Sequence[dict[str, Any]], scheme: str
    ) -> Any:
        """A table that sorts and filters, and keeps doing so while rows arrive."""
        from dash import html
        from dash_ag_grid import AgGrid

        self.live[name] = list(rows)
        grid = AgGrid(
            id=_id(name, "rowData"),
            rowData=list(rows),
            columnDefs=list(columns),
            defaultColDef={"sortable": True, "filter": True, "resizable": True, "minWidth": 90},
            getRowId="params.data.id",
            dashGridOptions={
                "pagination": True,
                "paginationPageSize": 20,
                "paginationPageSizeSelector": [20, 50, 200, 1000],
                "domLayout": "autoHeight",
                "suppressColumnVirtualisation": False,
                "enableCellTextSelection": True,
                "ensureDomOrder": True,
                "tooltipShowDelay": 300,
            },
            columnSize="autoSize",
            style={"height": None, "width": "100%"},
        )
        return html.Div(grid, className="grid", **attributes("data-ag-theme-mode", scheme))


def figure_box(
    figure: Any,
    title: str,
    caption: str,
    height_px: int | None = None,
    identity: Any = None,
    width_px: int = 0,
) -> Any:
    """A figure below its title; the caption says in words what a picture cannot tell everyone. Where there is
    less room than `width_px`, it scrolls."""
    from dash import dcc, html

    graph: dict[str, Any] = {
        "figure": figure,
        "config": {
            "displaylogo": False,
            "responsive": True,
            "toImageButtonOptions": {"format": "svg"},
            "modeBarButtonsToRemove": ["lasso2d", "select2d"],
        },
        "style": {"height": f"{height_px or figure.layout.height or 380}px"},
    }
    if identity is not None:
        graph["id"] = identity
    drawn: Any = dcc.Graph(**graph)
    if width_px:
        graph["style"]["minWidth"] = f"{width_px}px"
        drawn = html.Div(dcc.Graph(**graph), className="scroll", tabIndex=0, role="region", **named(title))
    return html.Figure([html.H2(title), drawn, html.Figcaption(caption) if caption else None])


def named(label: str) -> dict[str, Any]:
    """What something is called, for those who do not see it."""
    return attributes("aria-label", label)


def attributes(name: str, value: str) -> dict[str, Any]:
    """An attribute whose name is none of Python's."""
    return {name: value}


def link(text: Any, address: str, **more: Any) -> Any:
    """A link to another page of the explorer; the browser's own, so that every page is loaded whole and has
    an address, a title and a place in the history."""
    from dash import html

    return html.A(text, href=address, **more)


def address(*parts: object) -> str:
    """The address of a page; names are escaped."""
    return "/" + "/".join(quote(str(part), safe="" if index else "/") for index, part in enumerate(parts))


def plain_table(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[Any]], numeric: Sequence[int] = ()
) -> Any:
    """A table of text and links; `numeric` are columns that line up to the right."""
    from dash import html

    def style(index: int) -> dict[str, Any]:
        return {"className": "n"} if index in numeric else {}

    return html.Div(
        html.Table(
            [
                html.Caption(caption),
                html.Thead(html.Tr([html.Th(text, scope="col", **style(i)) for i, text in enumerate(head)])),
                html.Tbody(
                    [
                        html.Tr(
                            [
                                html.Th(cell, scope="row") if i == 0 else html.Td(cell, **style(i))
                                for i, cell in enumerate(row)
                            ]
                        )
                        for row in rows
                    ]
                ),
            ]
        ),
        className="scroll",
        tabIndex=0,
        role="region",
        **named(caption),
    )


def facts(pairs: Sequence[tuple[str, Any]]) -> Any:
    """Short facts in a row."""
    from dash import html

    return html.Dl([html.Div([html.Dt(name), html.Dd(value)]) for name, value in pairs], className="facts")


def bar(done: int, planned: int, label: str) -> Any:
    """How far something is."""
    from dash import html

    return html.Progress(value=str(done), max=str(max(1, planned)), **named(label))


def _id(name: str, prop: str) -> dict[str, str]:
    return {"live": name, "prop": prop}
