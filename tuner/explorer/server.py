"""The Dash application: one shell, pages by address, and a clock that brings what is new.

Everything a browser needs is served from here, so that it works without a network.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tiertune.files import InputError
from tiertune.tuner.explorer.folder import Results
from tiertune.tuner.explorer.page import named
from tiertune.tuner.explorer.pages.knobs import slice_figure
from tiertune.tuner.explorer.pages.memory import movie_of
from tiertune.tuner.explorer.problem import UNREADABLE
from tiertune.tuner.explorer.routes import page_of, parts_of, stamp_of
from tiertune.tuner.explorer.tracked import redirect_to_run
from tiertune.tuner.explorer.view import View
from tiertune.tuner.report.palette import palette_css

if TYPE_CHECKING:
    from dash import Dash

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""Names of this machine."""

CLOCK_MS = 2000
"""How often a page asks whether something is new."""

SHELL = """<!DOCTYPE html>
<html lang="en">
<head>
{%metas%}
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>tiertune</title>
{%favicon%}
<style>{palette}</style>
{%css%}
</head>
<body>
{%app_entry%}
<footer>{%config%}{%scripts%}{%renderer%}</footer>
</body>
</html>
"""


def make_app(results: Results, mlflow_pages: str | None = None, *, local: bool = True) -> Dash:
    """The application over a results folder. `mlflow_pages` is where MLflow's own pages are, None where that
    is the campaign's tracking server or this machine. `local` pages answer to names of this machine alone:
    else a site that lets its own name point here could read them through a browser on this machine."""
    import dash
    from dash import Dash, dcc, html

    app = Dash(
        __name__,
        title="tiertune",
        update_title="",  # the title is that of the page
        serve_locally=True,
        suppress_callback_exceptions=True,
        index_string=SHELL.replace("{palette}", palette_css()),
        add_log_handler=False,
    )
    app.layout = html.Div(
        [
            html.A("Skip to the content", href="#content", className="skip"),
            html.Header(
                html.Nav(
                    [html.A("tiertune", href="/"), html.Span(str(results.path), className="where")],
                    **named("all results"),
                )
            ),
            html.Main(html.P("Loading …"), id="content", tabIndex=-1),
            dcc.Location(id="url"),
            dcc.Interval(id="clock", interval=CLOCK_MS),
            dcc.Store(id="scheme"),
            dcc.Store(id="stamp"),
            dcc.Store(id="title"),
            dcc.Store(id="said"),
        ]
    )
    if local:
        app.server.before_request(_refuse_other_names)
    _callbacks(app, results, dash)
    _movies(app, results)
    app.server.add_url_rule(
        "/mlflow/<campaign>/<number>/<purpose>/<trial>",
        view_func=lambda **asked: redirect_to_run(results, mlflow_pages, **asked),
    )
    return app


def _refuse_other_names() -> None:
    """Flask's own TRUSTED_HOSTS takes no IPv6 address."""
    import flask

    try:
        asked = urlsplit(f"//{flask.request.host}").hostname
    except ValueError:
        asked = None
    if asked not in LOOPBACK:
        flask.abort(400, "these pages are for this machine; tiertune ui --host ADDRESS lets others in")


def _callbacks(app: Dash, results: Results, dash: Any) -> None:
    from dash import ALL, Input, Output, State

    app.clientside_callback(
        "function() { return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light' }",
        Output("scheme", "data"),
        Input("url", "pathname"),
    )
    app.clientside_callback(
        "function(title) { if (title) { document.title = title + ' · tiertune' } return title }",
        Output("said", "data"),
        Input("title", "data"),
    )
    # The address says which knobs are shown, so that it can be kept and sent.
    app.clientside_callback(
        """function(x, y) {
            const address = new URL(location.href);
            address.search = new URLSearchParams({x: x, y: y}).toString();
            history.replaceState(history.state, '', address);
            return dash_clientside.no_update;
        }""",
        Output("knob-x", "className"),
        Input("knob-x", "value"),
        Input("knob-y", "value"),
        prevent_initial_call=True,
    )

    @app.callback(
        Output("content", "children"),
        Output("title", "data"),
        Output("stamp", "data"),
        Input("scheme", "data"),
        State("url", "pathname"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def show(scheme: str, path: str, search: str) -> tuple[Any, str, str]:
        view = View(results, scheme)
        before = stamp_of(view, path)
        page = page_of(view, path, search or "")
        return page.body, page.title, before

    @app.callback(
        Output({"prop": "children", "live": ALL}, "children"),
        Output({"prop": "figure", "live": ALL}, "figure"),
        Output({"prop": "rowData", "live": ALL}, "rowData"),
        Output("content", "children", allow_duplicate=True),
        Output("title", "data", allow_duplicate=True),
        Output("stamp", "data", allow_duplicate=True),
        Input("clock", "n_intervals"),
        State("url", "pathname"),
        State("url", "search"),
        State("scheme", "data"),
        State("stamp", "data"),
        prevent_initial_call=True,
    )
    def refresh(_: int, path: str, search: str, scheme: str, known: str) -> Any:
        view = View(results, scheme)
        now = stamp_of(view, path)
        if now == known:
            raise dash.exceptions.PreventUpdate
        page, kept = page_of(view, path, search or ""), dash.no_update
        shown = [[one["id"]["live"] for one in group] for group in dash.ctx.outputs_list[:3]]
        if {name for group in shown for name in group} != set(page.live):
            # A first trial, a first validation, or a journal that came or went: another page.
            return *([kept] * len(group) for group in shown), page.body, page.title, now
        return *([page.live[name] for name in group] for group in shown), kept, kept, now

    @app.callback(
        Output("slice", "figure"),
        Input("knob-x", "value"),
        Input("knob-y", "value"),
        Input("stamp", "data"),
        State("url", "pathname"),
        State("scheme", "data"),
        prevent_initial_call=True,
    )
    def choose(x: str, y: str, _: str, path: str, scheme: str) -> Any:
        parts = parts_of(path)
        if len(parts) != 4 or parts[3] != "knobs":
            raise dash.exceptions.PreventUpdate
        try:
            return slice_figure(View(results, scheme), parts[1], parts[2], x, y)
        except UNREADABLE:
            # The journal went away meanwhile, which the clock's next tick says in words.
            raise dash.exceptions.PreventUpdate from None


def _movies(app: Dash, results: Results) -> None:
    from dash import Input, Output, State

    @app.callback(Output("movie", "children"), Input("movie-of", "data"), State("scheme", "data"))
    def film(cell: list[str], scheme: str) -> Any:
        return movie_of(View(results, scheme), *cell)


def serve(app: Dash, host: str, port: int, ready: Any) -> None:
    """Serve until Ctrl-C; `ready` is called with the port once the socket listens. Raises InputError where
    the port was taken meanwhile."""
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    try:
        server = make_server(host, port, app.server, threaded=True)
    except SystemExit:  # werkzeug ends the process where it cannot listen
        raise InputError(f"--port {port}: nobody can listen there any more; --port 0 takes any") from None
    try:
        ready(server.server_port)
        server.serve_forever()
    finally:
        server.server_close()
