"""The certificate as JUnit XML: a test case per event, so that CI servers show it."""

import re
import xml.etree.ElementTree as ET

from coordinator_testing.certify.certificate import Certificate, EventReport

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(certificate: Certificate) -> bytes:
    """The document."""
    outcomes = [each.outcome for each in certificate.events]
    suite = ET.Element(
        "testsuite",
        name=f"coordinator certify {certificate.protocol}",
        tests=str(len(outcomes)),
        failures=str(outcomes.count("failed")),
        errors=str(outcomes.count("not reached")),
        skipped=str(outcomes.count("not applicable")),
        time=f"{(certificate.ended_ms - certificate.began_ms) / 1000:.3f}",
    )
    for report in certificate.events:
        _add(suite, report, certificate.protocol)
    ET.indent(suite)
    content: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    return content


def _add(suite: ET.Element, report: EventReport, protocol: str) -> None:
    seconds = (report.stopped_ms - report.began_ms) / 1000
    case = ET.SubElement(suite, "testcase", classname=f"certify.{protocol}", name=report.name, time=f"{seconds:.3f}")
    if report.outcome == "not applicable":
        ET.SubElement(case, "skipped", message=_text(report.reason or ""))
    if report.outcome == "not reached":
        ET.SubElement(case, "error", message=_text(report.reason or ""))
    for finding in report.findings:
        if finding.outcome == "broken" and report.outcome == "failed":
            failure = ET.SubElement(case, "failure", message=_text(f"{finding.promise}: {finding.text}"))
            failure.text = _text("\n".join(finding.evidence))
    output = ET.SubElement(case, "system-out")
    output.text = _text("\n".join(f"--- instance {each.index}\n{each.printed}" for each in report.instances))


def _text(text: str) -> str:
    """The text without characters that XML cannot have."""
    return _NOT_IN_XML.sub("?", text)
