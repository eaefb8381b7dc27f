"""The page of a scan, used by mouse and by keyboard."""

import msgspec
import pytest
from dev import example_scan
from dev.waiting import eventually
from tests.page import probes
from tests.page.conftest import count_of

from rackspan.core.text import size
from rackspan.reports.document import FindingRow, ScanChanges, ScanDocument, Summary
from rackspan.reports.page.vocabulary import RULES

HOSTILE = """</script><script>alert(1)</script><img src=x onerror=alert(2)>"'`&amp; {{7*7}} ☠ \u202e\u2028-->"""


@pytest.fixture(scope="module")
def example():
    return example_scan.example()


@pytest.fixture(scope="module")
def hostile(example):
    """Return the example with a text that looks like markup in every text field."""
    keep = {"severity", "worst", "rule", "level", "state", "schema"}

    def poison(value, name=""):
        if isinstance(value, dict):
            return {key: poison(item, key) for key, item in value.items()}
        if isinstance(value, list):
            return [poison(item, name) for item in value[:8]]
        if isinstance(value, str) and name not in keep and not name.endswith(("At", "Seen", "date", "since")):
            return f"/{HOSTILE}/{value}" if name in ("domain", "rack") else f"{value} {HOSTILE}"
        return value

    return msgspec.convert(poison(msgspec.to_builtins(example)), ScanDocument)


def test_example_scan_has_findings_of_every_rule(example):
    assert {finding.rule for finding in example.findings} == set(RULES)


def test_assessment_shows_the_faults_their_age_and_the_cost_of_a_fix(show, example):
    page = show(example)
    assessment = page.locator(".assessment").inner_text()
    summary = example.summary
    assert f"{summary.offline} of {summary.partitions} partitions are offline" in assessment
    assert "spread unfairly for 18 days" in assessment
    assert f"A fix copies {summary.moves} replicas ({size(summary.move_bytes)}), up to " in assessment


@pytest.mark.parametrize(
    ("first_seen", "since"),
    [
        ("2026-11-28T16:42:25Z", "this scan"),
        ("2026-11-28T16:42:24Z", "3 min"),
        ("2026-11-28T14:00:00Z", "2 h"),
    ],
)
def test_finding_first_seen_at_the_start_of_the_scan_is_of_this_scan(show, example, first_seen, since):
    """The duration of the scan and the time since the previous scan do not matter."""
    finding = msgspec.structs.replace(example.findings[0], first_seen=first_seen)
    times = {"started_at": "2026-11-28T16:42:25Z", "finished_at": "2026-11-28T16:45:25Z"}
    page = show(msgspec.structs.replace(example, findings=[finding], **times))
    assert page.locator(".since").inner_text() == since


def test_map_shows_every_broker_in_its_rack(show, example):
    page = show(example)
    for broker in example.brokers:
        cell = page.locator(f'[data-domain="{broker.rack}"] > .box-inside [data-broker="{broker.id}"]')
        label = cell.get_attribute("aria-label")
        assert (broker.worst or "nothing wrong") in label
        assert ("offline" in label) is not broker.online
    assert page.locator(".cell").count() == len(example.brokers)


def test_broker_details_list_its_findings_and_compare_its_loss(show, example):
    page = show(example)
    broker = next(row for row in example.brokers if not row.online)
    page.locator(f'[data-broker="{broker.id}"]').click()
    details = page.locator("#inspect")
    assert f"Broker {broker.id}" in details.inner_text()
    assert broker.rack in details.inner_text()
    details.get_by_role("button", name="List").click()
    assert count_of(page)[0] == sum(finding.broker == broker.id for finding in example.findings)
    details.get_by_role("button", name="Compare its loss").click()
    assert page.locator("#lost").input_value() == f"broker {broker.id}"


def test_broker_details_say_differs_only_if_the_reported_rack_is_another_one(show, example):
    broker = example.brokers[0]
    same, other = broker.rack.removeprefix("/"), "/us/us-1a/r9"
    for reported, differs, online in (
        (same, False, True),
        (other, True, True),
        (None, False, True),
        (None, False, False),
    ):
        row = msgspec.structs.replace(broker, reported_rack=reported, online=online)
        page = show(msgspec.structs.replace(example, brokers=[row, *example.brokers[1:]]))
        page.locator('[data-broker="0"]').click()
        text = page.locator("#inspect").inner_text()
        assert (reported or ("not set" if online else "not known")) in text
        assert ("differs" in text) is differs


def test_map_is_one_tab_stop_with_arrow_keys_for_its_tree(show, example):
    page = show(example)
    assert page.locator("#map [tabindex='0']").count() == 1
    page.locator("#map [tabindex='0']").focus()
    where = "document.activeElement.dataset.domain ?? document.activeElement.dataset.broker"
    walked = []
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "ArrowLeft", "End", "Home"):
        page.keyboard.press(key)
        walked.append(page.evaluate(where))
    assert walked == ["/eu/eu-1a", "/eu/eu-1a/r1", "0", "1", "0", "/eu/eu-1a/r1", "23", "/eu"]
    assert "/eu" in page.locator("#inspect h3").inner_text()
    page.keyboard.press("Escape")
    assert "Choose a broker" in page.locator("#inspect").inner_text()


def test_search_and_filters_select_findings_and_show_their_number(show, example):
    page = show(example)
    everything = len(example.findings)
    assert count_of(page) == (everything, everything, example.summary.findings)
    page.locator("#search").fill("STOCK zone")
    wanted = [f for f in example.findings if "stock" in (f.topic or "") and "zone" in f"{f.message}{f.fix}"]
    assert count_of(page)[0] == len(wanted) > 0
    page.get_by_role("button", name="Clear filters").click()
    page.locator(".chip", has_text="critical").click()
    page.locator(".chip", has_text="info").click()
    assert count_of(page)[0] == sum(f.severity in ("critical", "info") for f in example.findings)
    page.get_by_role("button", name="Clear filters").click()
    page.locator("#rule").select_option("MinInsyncTooSmall")
    topic = next(f.topic for f in example.findings if f.rule == "MinInsyncTooSmall")
    page.locator("#topic").select_option(topic)
    assert count_of(page)[0] == 1
    assert topic in page.locator("#findings-table tbody").inner_text()
    page.locator("#search").fill("no such thing")
    assert page.locator("#no-findings").is_visible()
    page.locator("#clear-here").click()
    assert count_of(page)[0] == everything


def test_click_on_a_topic_lists_its_findings(show, example):
    page = show(example)
    topic = example.topics[0]
    page.locator(".topics").get_by_role("button", name=topic.name, exact=True).click()
    assert count_of(page)[0] == topic.findings
    page.locator("#scope").click()
    assert count_of(page)[0] == len(example.findings)


def test_columns_sort_in_both_directions_and_set_aria_sort(show, example):
    page = show(example)
    heading = page.get_by_role("button", name="To copy", exact=True)
    copied = page.locator("#findings-table td.copy")
    heading.click()
    assert copied.first.inner_text() == str(max(finding.moves for finding in example.findings))
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    heading.click()
    assert not copied.first.inner_text().isdigit()
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"


def test_partitions_are_sorted_by_number(show, example):
    page = show(example)
    topic = next(row for row in example.topics if row.non_compliant > 3)
    page.locator("#topic").select_option(topic.name)
    page.get_by_role("button", name="Where", exact=True).click()
    names = page.locator("#findings-table td.where").all_inner_texts()
    numbers = [int(name.removeprefix(f"{topic.name}-")) for name in names if name != topic.name]
    assert numbers == sorted(numbers)
    assert max(numbers) > 9


def test_enter_expands_a_row_with_its_fix_and_collapses_it(show, example):
    page = show(example)
    row = page.locator(".expand").first
    row.focus()
    page.keyboard.press("Enter")
    assert row.get_attribute("aria-expanded") == "true"
    detail = page.locator("tr.detail")
    assert example.findings[0].fix in detail.inner_text()
    assert example.findings[0].id in detail.inner_text()
    page.keyboard.press("Enter")
    assert detail.count() == 0


def test_more_button_lists_all_findings(show, example):
    page = show(example)
    rows = page.locator("tr.finding")
    shown = rows.count()
    page.locator("#more").click()
    assert shown < rows.count() == len(example.findings)
    assert page.locator("#more").is_hidden()


def test_loss_of_the_selected_domain_is_compared_with_the_worst_one(show, example):
    page = show(example)
    zones = [row for row in example.domains if row.level == "zone"]
    chosen = min(zones, key=lambda row: row.what_if.last_replica)
    worst = max(zones, key=lambda row: row.what_if.last_replica)
    page.locator("#lost").select_option(chosen.domain)
    card = page.locator('[data-effect="lastReplica"]')
    assert card.locator(".loss-value").inner_text() == str(chosen.what_if.last_replica)
    assert f"worst zone: {worst.domain}, {worst.what_if.last_replica}" in card.inner_text()
    assert page.locator("#loss-result tr.this").inner_text().startswith(chosen.domain)


def test_charts_are_drawn_and_have_tables_of_their_numbers(show, example):
    page = show(example)
    for chart in ("trend-share", "trend-findings", "trend-minutes", "heat-replicas", "heat-leaders"):
        eventually(lambda chart=chart: page.evaluate(probes.COLOURS_OF_CHART, chart) > 3, f"{chart} to be drawn")
    page.locator("#trend summary").click()
    assert page.locator("#trend tbody tr").count() == len(example.trend)
    page.locator("#balance summary").click()
    assert page.locator("#balance tbody tr").count() == len(example.domains) + len(example.brokers)


def test_short_history_is_shown_by_hour(show, example):
    hours = [msgspec.structs.replace(example.trend[0], date=f"2026-11-20T{at:02}") for at in (4, 5, 6)]
    page = show(msgspec.structs.replace(example, trend=example.trend[-1:], hours=hours))
    assert page.locator("#trend .section-head p").inner_text() == "3 hours, 20 November, 04:00 to 20 November, 06:00"
    for chart in ("trend-share", "trend-findings", "trend-minutes"):
        eventually(lambda chart=chart: page.evaluate(probes.COLOURS_OF_CHART, chart) > 3, f"{chart} to be drawn")
    page.locator("#trend summary").click()
    told = page.locator("#trend tbody tr td:first-child").all_inner_texts()
    assert told == ["20 November, 06:00", "20 November, 05:00", "20 November, 04:00"]


def test_theme_follows_the_browser_and_the_button(show, example):
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = show(example), show(example, scheme="dark")
    bright, dim = light.evaluate(ground), dark.evaluate(ground)
    assert bright != dim
    button = light.locator("#theme")
    seen = []
    for _ in range(3):
        button.click()
        seen.append((button.inner_text(), light.evaluate(ground)))
    assert seen == [("Theme: light", bright), ("Theme: dark", dim), ("Theme: auto", bright)]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_enough_contrast(show, example, scheme):
    """WCAG 2 requires at least 4.5 to 1."""
    page = show(example, scheme=scheme)
    page.locator(".cell.offline").click()
    assert page.evaluate(probes.POOR_CONTRAST) == []


def test_page_fits_the_width_of_a_phone(show, example):
    page = show(example, width=400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.evaluate(probes.TOO_WIDE) == []
    page.locator('[data-broker="4"]').click()
    assert "Broker 4" in page.locator("#inspect").inner_text()


def test_tab_reaches_every_control_with_a_visible_focus(show, example):
    page = show(example)
    reached, unseen = set(), []
    for _ in range(140):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(probes.FOCUSED)
        reached.add(name)
        if outline == "none" and "BODY" not in name:
            unseen.append(name)
    wanted = {"theme", "map", "search", "chip", "rule", "topic", "severity", "moves", "row", "more", "topics BUTTON",
              "lost", "loss BUTTON", "trend SUMMARY", "balance SUMMARY"}  # fmt: skip
    assert wanted <= reached
    assert unseen == []


def test_page_does_not_scroll_smoothly_with_reduced_motion(show, example):
    page = show(example, motion="reduce")
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"


def test_printed_page_has_findings_and_no_controls(show, example):
    page = show(example, scheme="dark")
    page.emulate_media(media="print")
    assert page.locator("#filters").is_hidden()
    assert page.locator("#theme").is_hidden()
    assert page.locator("tr.finding").first.is_visible()
    assert page.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor") == "rgb(255, 255, 255)"


@pytest.mark.parametrize(("scheme", "turned"), [("dark", True), ("light", False)])
def test_printed_page_inverts_dark_charts(show, example, scheme, turned):
    page = show(example, scheme=scheme)
    style = "getComputedStyle(document.getElementById('heat-leaders')).filter"
    assert page.evaluate(style) == "none"
    page.emulate_media(media="print")
    assert ("invert" in page.evaluate(style)) is turned


def test_page_of_a_failed_scan_shows_the_reason(show):
    document = example_scan.failed()
    page = show(document)
    text = page.locator("main").inner_text()
    assert "This scan failed" in text
    assert document.message in text
    assert document.reason in text
    assert page.locator("#findings, #map").count() == 0


def test_page_of_a_scan_without_findings_says_that_nothing_is_wrong(show):
    page = show(example_scan.fine())
    text = page.locator("main").inner_text()
    assert "Nothing is wrong." in text
    assert "No rule found anything." in text
    assert "100 %" in text
    assert page.locator(".cell").count() == 3


def test_page_of_an_empty_cluster_says_that_it_has_no_brokers(show):
    at = "2026-11-20T06:00:00Z"
    page = show(ScanDocument("empty", "new", at, at, summary=Summary(), changes=ScanChanges()))
    text = page.locator("main").inner_text()
    assert "0 brokers and no partitions yet" in text
    assert "The scan saw no brokers." in text


def test_map_shows_a_cluster_without_levels_and_brokers_without_racks(show, example):
    flat = msgspec.structs.replace(example, levels=[], domains=[], brokers=example.brokers[:4])
    bare = [msgspec.structs.replace(row, rack=None, reported_rack=None) for row in flat.brokers]
    assert show(msgspec.structs.replace(flat, brokers=bare)).locator(".cell").count() == 4
    mixed = show(msgspec.structs.replace(example, brokers=[*example.brokers[4:], *bare]))
    assert mixed.locator(".homeless .cell").count() == 4


def test_texts_of_the_cluster_are_not_interpreted_as_markup(show, hostile):
    page = show(hostile)
    assert page.locator("img, iframe, object, embed, link").count() == 0
    assert page.locator("script").count() == 3
    topic = hostile.findings[0].topic
    assert HOSTILE.splitlines()[0][:40] in page.locator("#findings-table").inner_text()
    page.locator("#topic").select_option(topic)
    assert count_of(page)[0] == sum(finding.topic == topic for finding in hostile.findings)
    for control in (".expand", "#topics .link", ".cell", ".box"):
        page.locator(control).first.click()
    page.locator("#lost").select_option(index=2)
    assert "49" not in page.title()


def test_unknown_rule_and_severity_are_shown_unchanged(show, example):
    odd = FindingRow("odd", "constructor", "dreadful", "never heard of", "", topic="__proto__")
    page = show(msgspec.structs.replace(example, findings=[odd]))
    assert "constructor" in page.locator("#findings-table tbody").inner_text()
    assert "__proto__" in page.locator("#findings-table tbody").inner_text()
