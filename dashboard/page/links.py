"""How does a visitor get to another page, in this tab or another one, and keep what was chosen?

In this tab Streamlit keeps all of the address that is bound to the sidebar; a link that held it, too, would double the address at each
click. Another tab gets the link's own address, so this is completed in the browser when it is about to be used. And Streamlit goes to the
page in this tab whichever key is held: of such clicks it is not told, and the browser does what it does with any link.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from string import Template
from typing import Any, Final

import streamlit as st

KEPT: Final = ("range", "from", "to", "topics", "zone", "refresh")
"""What of the address goes with the visitor, beside the sink."""
_SCRIPT: Final = Template("""<script>
if (!window.pageLinks) {
  const linkOf = event => event.target.closest?.("[data-testid=stPageLink] a");
  const complete = event => {
    const link = linkOf(event), sink = document.querySelector("[data-sink]")?.dataset.sink;
    if (!link) return;
    const kept = [...new URLSearchParams(location.search)].filter(([name]) => $kept.includes(name));
    const page = link.getAttribute("href").split("?")[0] || "./";  // Streamlit's for the first page is blank: whatever page is open
    link.setAttribute("href", page + "?" + new URLSearchParams(sink ? [["sink", sink], ...kept] : kept));
  };
  window.pageLinks = ["pointerdown", "focusin", "contextmenu"];
  window.pageLinks.forEach(name => document.addEventListener(name, complete, true));
  document.addEventListener("click", event => {
    if (linkOf(event) && (event.ctrlKey || event.metaKey || event.shiftKey)) event.stopPropagation();
  }, true);
}
</script>""").substitute(kept=json.dumps(KEPT))


def render(pages: Sequence[tuple[Any, str]], sink: str) -> None:
    """The links to these pages, each with its icon.

    The sink is told to the browser: the address leaves out the one that was opened first.
    """
    with st.sidebar.container(gap="xxsmall"):
        st.html(f'<span data-sink="{escape(sink)}"></span>{_SCRIPT}', unsafe_allow_javascript=True)
        for page, icon in pages:
            st.page_link(page, icon=icon)
