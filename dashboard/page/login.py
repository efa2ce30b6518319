"""May this visitor see anything? Where a login is asked for, only after it, with the OpenID Connect provider of Streamlit's secrets."""

from __future__ import annotations

from collections.abc import Mapping

import streamlit as st
from streamlit.errors import StreamlitAPIException

from figures.text import plain
from reading.place import LOGIN


def admitted(variables: Mapping[str, str]) -> bool:
    """Whether the page may be drawn; else says what is to be done. Who may log in is the provider's to decide."""
    asked = variables.get(LOGIN, "")
    if not asked:
        return True
    if asked != "oidc":
        st.error(f"{LOGIN}={plain(asked)} is not known, so nothing is shown. Set it to oidc, or unset it.")
        return False
    if "is_logged_in" not in st.user:
        st.error(
            "A login is asked for, but Streamlit's secrets have no section [auth], so nothing is shown.",
            icon=":material/lock:",
        )
        st.markdown(
            "Write it into `.streamlit/secrets.toml` where the dashboard is started: docs/dashboard.md has an example."
        )
        return False
    if st.user.is_logged_in:
        st.sidebar.button("Log out", icon=":material/logout:", on_click=st.logout)
        return True
    st.title("kafka-s3", anchor=False)
    if st.button("Log in", icon=":material/login:", type="primary"):
        try:
            st.login()
        except StreamlitAPIException as error:
            st.error(plain(error), icon=":material/lock:")
    return False
