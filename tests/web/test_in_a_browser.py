"""The pages of hiveacid web in a real browser: seen, used, and attacked."""

from __future__ import annotations

import time
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.support import expected_conditions as expected
from selenium.webdriver.support.select import Select
from selenium.webdriver.support.wait import WebDriverWait

from hiveacid.serve.authentication import hash_line
from hiveacid.services.http_server import Access
from hiveacid.stores.sql.store import SqlStore
from hiveacid.web.login import Gate
from support.browser import DESKTOP, PHONE, Serve, show_as
from support.busy_store import HOSTILE
from support.many_tables import store_of_many_tables

PAGES = (
    "/", "/transactions?state=all&range=all", "/locks", "/compactions?range=all", "/services", "/tables/shop/orders?range=all",
    "/tables/shop/events/partitions", "/tables/shop/orders/files", "/tables/shop/orders/schema", "/nothing",
)  # fmt: skip
ENOUGH = 60
AXE = (resources.files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8")
CHECK = "const done = arguments[0]; axe.run(document, {resultTypes: ['violations']}).then(r => done(r.violations));"


def text_of(chrome: Chrome, css: str) -> str:
    return str(
        WebDriverWait(chrome, ENOUGH).until(expected.presence_of_element_located((By.CSS_SELECTOR, css))).text
    )


def press(chrome: Chrome, label: str, row: str = "", *, agree: bool = True) -> None:
    """Press a button, in the row that names something, and answer the question."""
    place = f"//tr[contains(., '{row}')]" if row else ""
    chrome.find_element(By.XPATH, f"{place}//button[normalize-space()='{label}']").click()
    alert = WebDriverWait(chrome, ENOUGH).until(expected.alert_is_present())
    (alert.accept if agree else alert.dismiss)()


def errors_of(chrome: Chrome) -> list[str]:
    """Return what the console says, but for pages that are errors on purpose."""
    return [entry["message"] for entry in chrome.get_log("browser") if "/nothing" not in entry["message"]]


def serious(chrome: Chrome) -> list[dict[str, Any]]:
    found = chrome.execute_async_script(CHECK)
    return [violation for violation in found if violation["impact"] in ("serious", "critical")]


def require_no_alert(chrome: Chrome) -> None:
    with pytest.raises(NoAlertPresentException):
        chrome.switch_to.alert.accept()


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desk", "phone"])
def test_pages_fit_and_load_nothing_from_elsewhere(chrome: Chrome, busy: str, size: tuple[int, int]) -> None:
    show_as(chrome, size)
    for page in PAGES:
        chrome.get(busy + page)
        require_no_alert(chrome)
        assert text_of(chrome, "h1")
        overflow = chrome.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
        assert overflow <= 0, page
        loaded = chrome.execute_script("return performance.getEntriesByType('resource').map(one => one.name)")
        assert all(address.startswith(busy) for address in loaded), page
        assert chrome.execute_script("return document.querySelectorAll('img').length") == 1
    assert errors_of(chrome) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desk", "phone"])
def test_axe_finds_nothing_serious(chrome: Chrome, busy: str, scheme: str, size: tuple[int, int]) -> None:
    show_as(chrome, size, scheme)
    found: dict[str, Any] = {}
    for page in PAGES:
        chrome.get(busy + page)
        chrome.execute_script(AXE)
        for violation in serious(chrome):
            found[f"{page} {violation['id']}"] = [node["html"][:120] for node in violation["nodes"]][:3]
    assert found == {}
    chrome.execute_script("document.body.append(document.createElement('input'))")
    assert [violation["id"] for violation in serious(chrome)] == ["label"]  # it does find something


def test_light_and_dark_are_as_the_system_says(chrome: Chrome, busy: str) -> None:
    brightness = {}
    for scheme in ("light", "dark"):
        show_as(chrome, DESKTOP, scheme)
        chrome.get(busy)
        colour = chrome.execute_script("return getComputedStyle(document.body).backgroundColor")
        brightness[scheme] = sum(int(part) for part in colour[4:-1].split(","))
    assert brightness["light"] > 600
    assert brightness["dark"] < 120


def test_hostile_names_are_text_and_no_script_but_ours_runs(chrome: Chrome, busy: str) -> None:
    """A table's name, a partition's value and an error's text are those of an attack."""
    for page, where in (
        (f"/?q={HOSTILE[:4].replace('<', '%3C')}", "tbody th"),
        ("/tables/shop/events/partitions", "tbody tr:last-child th"),
        ("/compactions?q=space&range=all", "td .error"),
        (f"/?q=%22%3E{HOSTILE.replace('<', '%3C').replace('>', '%3E').replace(' ', '%20')}", "td.empty"),
    ):
        chrome.get(busy + page)
        require_no_alert(chrome)
        assert (
            "No table matches." in text_of(chrome, where)
            if where == "td.empty"
            else "<img src" in text_of(chrome, where)
        )
    chrome.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.hacked = 1'; document.body.append(s);"
        "const i = document.createElement('img'); i.setAttribute('onerror', 'window.hacked = 2'); i.src = '/x'; document.body.append(i);"
    )
    WebDriverWait(chrome, ENOUGH).until(
        lambda _: any("Content Security Policy" in one for one in errors_of(chrome))
    )
    assert chrome.execute_script("return window.hacked") is None


def test_state_lives_in_the_address(chrome: Chrome, busy: str) -> None:
    chrome.get(busy)
    chrome.find_element(By.NAME, "q").send_keys("order")
    Select(chrome.find_element(By.NAME, "need")).select_by_visible_text("due")
    WebDriverWait(chrome, ENOUGH).until(expected.url_contains("need=due"))
    assert "q=order" in chrome.current_url
    chrome.find_element(By.LINK_TEXT, "Size").click()
    WebDriverWait(chrome, ENOUGH).until(expected.url_contains("sort=bytes"))
    assert len(chrome.find_elements(By.CSS_SELECTOR, "tbody tr")) == 1
    chrome.find_element(By.LINK_TEXT, "shop.orders").click()
    assert text_of(chrome, "h1") == "shop.orders"
    chrome.find_element(By.LINK_TEXT, "all").click()
    WebDriverWait(chrome, ENOUGH).until(expected.url_contains("range=all"))
    address = chrome.find_element(By.LINK_TEXT, "This page as JSON").get_attribute("href")
    assert address == f"{busy}/tables/shop/orders.json?range=all"


def test_figures_over_time_are_drawn(chrome: Chrome, busy: str) -> None:
    """Each chart has a line of some height and a name; a range of another length is a link away."""
    for page, names in (
        ("/?range=all", ("Size", "Deltas, with delete deltas", "Small files", "Files")),
        (
            "/tables/shop/orders?range=all",
            ("Deltas, with delete deltas", "Small files", "Deleted rows, per cent"),
        ),
    ):
        chrome.get(busy + page)
        for name in names:
            chart = chrome.find_element(By.CSS_SELECTOR, f'svg.chart[aria-label^="{name}: from "]')
            assert chart.find_element(By.CSS_SELECTOR, "polyline.line").rect["height"] > 10, name
            assert chart.find_element(By.XPATH, "../figcaption").text == name
    chrome.get(busy)
    chrome.find_element(By.LINK_TEXT, "30d").click()
    WebDriverWait(chrome, ENOUGH).until(expected.url_contains("range=30d"))
    assert errors_of(chrome) == []


def test_actions_ask_first_and_then_act(chrome: Chrome, serve: Serve, changing: SqlStore) -> None:
    address = serve(changing, Gate.of(Access(), ("local",)))
    chrome.get(f"{address}/?q=orders")
    before = len(changing.show_compactions())
    press(chrome, "Compact", "shop.orders", agree=False)
    assert len(changing.show_compactions()) == before
    press(chrome, "Compact", "shop.orders")
    assert text_of(chrome, ".notice") == "A major compaction of shop.orders is queued."
    assert "q=orders" in chrome.current_url
    assert text_of(chrome, "tbody .badge") == "running"

    chrome.get(f"{address}/compactions?state=failed&range=all")
    press(chrome, "Retry", "shop.returns")
    assert "is queued again, as compaction" in text_of(chrome, ".notice")

    chrome.get(f"{address}/compactions?state=initiated")
    press(chrome, "Abort", "shop.suppliers")
    assert "is aborted" in text_of(chrome, ".notice")

    chrome.get(f"{address}/locks")
    holder = text_of(chrome, ".graph .root .id").removeprefix("transaction ")
    press(chrome, f"Abort {holder}")
    assert text_of(chrome, ".notice") == f"Transaction {holder} is aborted."
    assert changing.txn_state(int(holder)) == "aborted"  # type: ignore[arg-type]
    assert errors_of(chrome) == []


def test_a_wrong_password_and_a_right_one(
    chrome: Chrome, serve: Serve, changing: SqlStore, tmp_path: Path
) -> None:
    users = tmp_path / "users"
    users.write_text(f"{hash_line('ann', 'right')}\n{hash_line('ben', 'right')}")
    users.chmod(0o600)
    address = serve(changing, Gate.of(Access(), ("ann",), users))

    def log_in(user: str, password: str) -> None:
        for name, value in (("user", user), ("password", password)):
            field = chrome.find_element(By.NAME, name)
            field.clear()
            field.send_keys(value)
        chrome.find_element(By.CSS_SELECTOR, ".login button").click()

    chrome.get(f"{address}/compactions?state=failed&range=all")
    assert "/login?next=" in chrome.current_url
    log_in("ann", "wrong")
    assert text_of(chrome, ".alert") == "The user or the password is wrong."
    assert chrome.get_cookies() == []
    log_in("ann", "right")
    WebDriverWait(chrome, ENOUGH).until(expected.url_to_be(f"{address}/compactions?state=failed&range=all"))
    assert "operator" in text_of(chrome, ".who")
    assert chrome.find_elements(By.XPATH, "//button[.='Retry']")
    chrome.find_element(By.XPATH, "//button[.='Log out']").click()
    WebDriverWait(chrome, ENOUGH).until(expected.url_contains("/login"))
    chrome.get(address)
    log_in("ben", "right")
    assert "ben" in text_of(chrome, ".who")
    assert not chrome.find_elements(By.CSS_SELECTOR, "form.action")
    assert [one for one in errors_of(chrome) if "403" not in one] == []


def test_ten_thousand_tables_are_a_page_in_less_than_a_second(
    chrome: Chrome, serve: Serve, tmp_path: Path
) -> None:
    """Also while they are measured in the background: each page is asked three times, the best one counts."""
    store = store_of_many_tables(tmp_path, 10_000)
    access = Gate.of(Access(), ("local",))
    address = serve(store, access, measured=False)
    for page, first in (
        ("/?sort=name", "big.t00000"),
        ("/?sort=name&order=desc&size=200", "big.t09999"),
        ("/?sort=name&page=400", "big.t09975"),
        ("/?q=t0777&sort=bytes", "big.t07779"),
    ):
        seconds = []
        for _ in range(3):
            began = time.monotonic()
            chrome.get(address + page)
            seconds.append(time.monotonic() - began)
            assert chrome.find_element(By.CSS_SELECTOR, "tbody th a").text[:8] == first[:8]
        assert min(seconds) < 1.0, page
        assert "10,000" in chrome.page_source or "q=" in page
    chrome.find_element(By.NAME, "q").clear()
    chrome.find_element(By.NAME, "q").send_keys("t00042", "\n")
    WebDriverWait(chrome, ENOUGH).until(expected.url_contains("q=t00042"))
    assert text_of(chrome, "tbody th") == "big.t00042"
