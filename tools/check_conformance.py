#!/usr/bin/env python3
"""Compares the tables of docs/conformance.md with the tests that the conformance program, and others, have.

    check_conformance.py DOCUMENT SOURCES CONFORMANCE_PROGRAM [OTHER_TEST_PROGRAM...]

Rows of behaviours are `| `group/name` | file | same, stricter or different | reason |`. Each name is a test, in that file of the folder
SOURCES, each test has one row, "different" rows cite a rule (R and a number), and there are at most 15 of them. Each name of LISTED has a
row, which does not say "ours".

Rows of bugs are `| number: what was reported | tests | here |`. Each number of BUGS has one; its tests, `group/name` or the name of another
program's test in double quotes, exist; a row without tests says "cannot happen: why" or "not offered". Tests named bug/NUMBER_... are in
the row of their number, and nowhere else. Exit code: 0 clean, 1 findings (one a line), 2 bad use.
"""
import os
import re
import subprocess
import sys

DIFFERENT_MAX = 15
ROW = re.compile(r'^\| `([a-z0-9_]+/[a-z0-9_]+)` \|([^|]*)\|([^|]*)\|([^|]*)\|$')
NAME = re.compile(r'^[a-z0-9_]+/[a-z0-9_]+$')
BUG_ROW = re.compile(r'^\| (\d+): [^|]*\|([^|]*)\|([^|]*)\|$')
BUG_TEST = re.compile(r'`([a-z0-9_]+/[a-z0-9_]+)`|"([^"]+)"')
NO_TEST = re.compile(r'^(cannot happen: .|not offered)')
BUGS = [int(number) for number in """
    1 3 4 6 7 9 10 12 14 15 16 17 19 20 22 23 25 26 27 29 30 32 33 34 36 38 40 41 43 45 46 47 49 50 52 53 54 56 57 58 59 60 63 65 66 68 69
    71 72 73 75 76 78 79 81 83 85 86 87 89 90 91 93 95 96 97 98 100 101 103 104 105 108 109 111 112 114 116 117 119 121 122""".split()]
# The integration tests of bevy_replicon 0.34.4 to 0.42.3, and of its example backend: group, then names.
LISTED_GROUPS = """
spawn: empty component multiple_components old_component related resource empty_before_connection before_connection with_pause signature
    signature_before_connection signature_before_replication signature_for_client before_started_replication after_started_replication
    visibility_gain visibility_gain_with_signature
despawn: single resource with_relations after_pause signature signature_with_hierarchy hidden_entity visibility_lose
    visibility_lose_with_component_scope with_visibility_gain_and_signature
insertion: table_storage sparse_set_storage immutable mapped_existing_entity mapped_new_entity multiple_components
    multiple_components_sequential rule_split_across_ticks receive_fns marker marker_from_same_update group not_replicated after_removal
    after_pause with_client_despawn confirm_history hidden_entity hidden_component hidden_all_except visibility_gain
mutations: small_component package_size_component many_components resource once filtered related receive_fns marker_with_replace
    marker_with_history marker_with_history_consume marker_with_history_old_update many_entities with_insertion with_removal
    with_despawn with_client_despawn buffering old_ignored acknowledgment before_acknowledgement confirm_history after_disconnect
    after_pause hidden_entity hidden_component
removal: single multiple receive_fns marker group not_replicated with_client_despawn after_insertion after_spawn after_pause
    confirm_history hidden_entity hidden_component hidden_all_except multiple_hidden_all_except hidden_component_and_all_expect
    visibility_lose
priority: client_priority entity_priority client_priority_overrides_entity_priority with_miss
mutate_ticks: without_changes one_message multiple_messages
diff: component resource message_loss outside_of_history_window external_mutation
fns: serialize_missing_component write remove write_diff write_with_command remove_with_command write_without_marker
    remove_without_marker write_with_marker remove_with_marker write_with_multiple_markers remove_with_multiple_markers
    write_with_priority_marker remove_with_priority_marker despawn
server_message: regular mapped without_plugins local_sending server_buffering client_queue client_queue_and_mapping
    multiple_client_queues independent before_started_replication independent_before_started_replication different_ticks
server_event: regular mapped without_plugins local_sending independent
client_message: regular mapped without_plugins local_sending with_disconnect
client_event: regular mapped without_plugins local_sending with_disconnect
shared_message: regular mapped without_plugins local_sending with_disconnect
shared_event: regular mapped without_plugins local_sending with_disconnect
bidirectional_event: message event
connection: client_connect_disconnect server_start_stop protocol_mismatch custom_auth disabled_auth network_id_map
stats: client_stats
storage: global entity entity_cleanup
userdata: update_message mutate_message
world_serialization: replicated empty not_replicated update_existing
backend: connect_disconnect disconnect_request server_stop replication server_message client_message
"""
# Its unit tests that are about a behaviour, by what they are of.
LISTED_UNIT_GROUPS = """
related_entities: orphan single disjoint nested split join reparent orphan_after_split despawn intersection overlap overlap_removal
    connected replication_start replication_stop runs_only_with_server
visibility: after_clients before_clients insert_filter_on_client remove_filter_from_entity remove_filter_from_client multiple_filters
    already_visible
packets: packing splitting
"""


def listed_names(groups):
    names = []
    for word in groups.split():
        if word.endswith(':'):
            group = word[:-1]
        else:
            names.append(group + '/' + word)
    return names


LISTED = listed_names(LISTED_GROUPS) + listed_names(LISTED_UNIT_GROUPS)


def rows_of(document):
    return [tuple(cell.strip() for cell in match.groups()) for match in map(ROW.match, document.splitlines()) if match]


def names_of(listing):
    return [line.strip() for line in listing.splitlines() if NAME.match(line.strip())]


def files_of(folder):
    """The file of each test, by name, as cells have it."""
    files = {}
    for file_name in sorted(os.listdir(folder)):
        if file_name.endswith('.cpp'):
            with open(os.path.join(folder, file_name), encoding='utf-8') as file:
                for name in re.findall(r'TEST_CASE\("([^"]+)"', file.read()):
                    files[name] = '`%s`' % file_name
    return files


def check_behaviours(document, tests, listed, files):
    rows = rows_of(document)
    findings = []
    seen = set()
    different = 0
    for name, file, verdict, reason in rows:
        if name in seen:
            findings.append('%s: two rows' % name)
        seen.add(name)
        if name not in tests:
            findings.append('%s: no such test' % name)
        elif files.get(name) != file:
            findings.append('%s: it is in %s, and not in %s' % (name, files.get(name), file))
        if verdict not in ('same', 'stricter', 'different', 'ours'):
            findings.append('%s: the verdict is "%s"' % (name, verdict))
        if verdict == 'ours' and name in listed:
            findings.append('%s: "ours", but it is listed' % name)
        if verdict == 'different':
            different += 1
            if not re.search(r'\bR\d+\b', reason):
                findings.append('%s: different, but cites no rule' % name)
    findings += ['%s: a test without a row' % name for name in tests if name not in seen and not name.startswith('bug/')]
    findings += ['%s: listed, but has no row' % name for name in listed if name not in seen]
    if different > DIFFERENT_MAX:
        findings.append('%d rows are different, at most %d may be' % (different, DIFFERENT_MAX))
    if not rows:
        findings.append('no rows')
    return findings, len(rows)


def check_bugs(document, tests, other_tests, numbers):
    findings = []
    seen, named = [], set()
    for match in filter(None, map(BUG_ROW.match, document.splitlines())):
        number, cell, verdict = int(match.group(1)), match.group(2), match.group(3).strip()
        names = [(own or other, own) for own, other in BUG_TEST.findall(cell)]
        seen.append(number)
        if not verdict or not (names or NO_TEST.match(verdict)):
            findings.append('bug %d: neither a test nor "cannot happen: why" or "not offered"' % number)
        for name, own in names:
            if name not in (tests if own else other_tests):
                findings.append('bug %d: no test "%s"' % (number, name))
            if name.startswith('bug/') and not name.startswith('bug/%d_' % number):
                findings.append('bug %d: %s is a test of another number' % (number, name))
            named.add(name)
    findings += ['bug %d: %d rows' % (number, seen.count(number)) for number in numbers if seen.count(number) != 1]
    findings += ['%s: in no row' % name for name in tests if name.startswith('bug/') and name not in named]
    return findings, len(seen)


def main(arguments):
    if len(arguments) < 3:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    with open(arguments[0], encoding='utf-8') as file:
        document = file.read()
    listings = [subprocess.run([program, '--list-test-cases'], stdout=subprocess.PIPE, check=True).stdout.decode()
                for program in arguments[2:]]
    tests = names_of(listings[0])
    other_tests = {line.strip() for listing in listings[1:] for line in listing.splitlines()}
    behaviours, rows = check_behaviours(document, tests, LISTED, files_of(arguments[1]))
    bugs, bug_rows = check_bugs(document, tests, other_tests, BUGS)
    findings = behaviours + bugs
    for finding in findings:
        print(finding)
    print('check_conformance: %d behaviours, %d bugs, %d findings' % (rows, bug_rows, len(findings)))
    return 1 if findings else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
