// SPDX-License-Identifier: MIT OR Apache-2.0
/* guest all|memory|panics [TEST...]: runs these tests, and prints how many passed. */
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include "test.h"

/* Time limit of a test, s. A guest without KVM is slow, and beside other work ten times slower. */
#define SECONDS_MAX 400
#define FIGURE_SECONDS_MAX 1800

#define TESTS(row) \
	row(an_interest_reaches_the_other_namespace_and_its_data_comes_back) \
	row(an_interest_without_a_route_is_refused_by_a_nack) \
	row(a_data_that_was_seen_is_answered_by_the_content_store) \
	row(a_prefix_of_a_cached_name_is_answered_where_it_may_be) \
	row(interests_of_two_sockets_for_one_name_are_one_upstream) \
	row(a_packet_longer_than_the_mtu_crosses_in_fragments) \
	row(an_interest_loses_a_hop_on_the_way) \
	row(a_device_that_goes_down_and_up_again_serves_its_face_again) \
	row(a_device_that_is_removed_takes_its_faces_along) \
	row(an_interest_to_the_group_reaches_the_other_namespace) \
	row(three_stations_on_one_device_are_three_faces) \
	row(frames_of_strangers_are_counted_and_go_nowhere) \
	row(a_prefix_that_overlaps_a_bound_one_is_refused_until_its_socket_is_closed) \
	row(a_prefix_is_free_as_soon_as_its_socket_is_closed) \
	row(a_prefix_that_its_socket_unbinds_is_free_and_the_others_stay) \
	row(several_packets_leave_by_one_call) \
	row(a_bind_without_a_route_succeeds_and_gets_interests_once_there_is_one) \
	row(a_prefix_too_long_for_an_address_is_bound_by_an_option) \
	row(only_who_administers_the_network_binds_localhost) \
	row(what_is_of_localhost_does_not_pass_a_socket_that_stands_for_another_machine) \
	row(a_thousand_sockets_under_one_routable_prefix_are_one_fib_entry) \
	row(a_socket_has_a_face_from_its_first_packet_until_it_is_closed) \
	row(one_socket_is_consumer_and_producer_at_once) \
	row(poll_tells_of_packets_and_a_call_that_may_not_wait_does_not) \
	row(a_wait_ends_after_its_time_and_by_a_signal) \
	row(a_packet_can_be_peeked_at_and_is_cut_to_the_room_there_is) \
	row(a_socket_refuses_what_it_does_not_know) \
	row(what_no_packet_is_is_counted_and_harms_nobody) \
	row(a_full_receive_buffer_is_counted_and_nothing_waits) \
	row(routes_strategies_bindings_and_faces_are_listed) \
	row(a_listing_with_the_longest_names_is_whole) \
	row(writing_takes_a_capability_and_reading_none) \
	row(the_face_local_and_those_of_sockets_cannot_be_deleted) \
	row(the_face_local_counts_what_goes_by_it_to_bound_sockets) \
	row(faces_of_devices_that_come_and_go_are_told_to_who_listens) \
	row(erasing_and_shrinking_empty_the_content_store) \
	row(a_namespace_that_uses_none_has_no_forwarder) \
	row(what_leaves_the_memory_is_kept_outside_and_found_there) \
	row(a_store_outside_that_reads_nothing_is_passed_by) \
	row(so_many_questions_pend_at_a_store_outside_and_one_more_is_passed_by) \
	row(what_pends_at_a_store_outside_that_ends_goes_upstream) \
	row(a_store_outside_takes_a_capability_and_answers_what_it_was_asked) \
	row(faces_of_sockets_and_devices_have_ids_of_one_kind_and_bound_ones_alone_get_interests) \
	row(data_for_a_socket_that_was_closed_goes_nowhere_and_is_counted) \
	row(must_be_fresh_is_answered_by_the_content_store_while_it_is_fresh) \
	row(a_data_for_many_sockets_is_one_upstream_and_copied_for_none) \
	row(can_be_prefix_by_one_processor_is_answered_by_what_comes_to_another) \
	row(nothing_passes_the_door_while_nothing_happens) \
	row(the_module_stays_while_a_socket_is_open)

/* Sockets of names and contents, and of objects in segments. */
#define TESTS_OF_CONTENTS(row) \
	row(a_name_is_answered_by_a_content_between_two_namespaces) \
	row(one_datagram_socket_is_consumer_and_producer_at_once) \
	row(the_kernel_signs_a_content_by_its_digest) \
	row(a_signature_that_is_given_goes_out_and_comes_in_as_it_is) \
	row(an_interest_carries_what_its_program_asks_for) \
	row(a_name_too_long_for_an_address_goes_by_a_control_message) \
	row(a_nack_is_an_error_of_a_datagram_socket_or_a_message) \
	row(a_content_can_be_peeked_at_and_is_cut_to_the_room_there_is) \
	row(a_datagram_socket_refuses_what_it_does_not_know) \
	row(an_object_crosses_in_segments_in_their_order_and_ends) \
	row(an_object_over_a_path_that_loses_and_reorders_is_whole_and_in_order) \
	row(one_percent_of_losses_leaves_half_of_the_rate) \
	row(a_lost_segment_comes_from_its_provider_where_nothing_is_cached) \
	row(segments_longer_than_a_frame_cross_in_fragments) \
	row(one_seqpacket_socket_is_consumer_and_provider_at_once) \
	row(an_object_ends_by_shutdown_and_another_can_be_opened) \
	row(whoever_asks_for_a_prefix_gets_its_first_segment) \
	row(buffers_are_bounded_and_whoever_reads_lets_the_other_send) \
	row(the_smallest_buffers_carry_an_object) \
	row(what_is_wanted_no_more_and_what_is_there_no_more_is_counted) \
	row(an_object_that_nobody_has_is_an_error) \
	row(a_signal_ends_a_wait_for_segments_and_for_room) \
	row(either_side_is_closed_in_the_middle_and_nothing_is_left) \
	row(fifteen_consumers_take_less_than_fifty_megabytes) \
	row(a_seqpacket_socket_refuses_what_it_does_not_know) \
	row(four_threads_on_one_object_that_is_closed_meanwhile_harm_nobody)

/* Load of a machine: random calls, frames and floods, devices and namespaces that go. */
#define TESTS_OF_FAULTS(row) \
	row(frames_of_every_malformation_are_dropped_and_nothing_else_happens) \
	row(a_flood_of_interests_fills_no_more_than_its_part_of_the_pit) \
	row(a_flood_of_fragments_holds_no_more_than_a_mebibyte) \
	row(frames_that_somebody_listens_to_are_forwarded_and_heard_as_they_were) \
	row(a_frame_in_pieces_is_made_whole_and_counted) \
	row(frames_of_a_card_come_in_lists_and_in_pieces) \
	row(the_dispatcher_brings_one_name_to_one_processor_and_names_to_all) \
	row(the_dispatcher_at_random_brings_a_name_to_all_and_may_keep_none) \
	row(what_finds_no_room_at_another_processor_is_counted) \
	row(exchanges_by_dispatched_packets_are_whole) \
	row(a_device_goes_up_and_down_under_load) \
	row(a_device_is_renamed_moved_and_removed_under_load) \
	row(a_namespace_goes_with_its_sockets_open_and_its_device_under_load) \
	row(a_memory_cgroup_at_its_limit_gets_no_forwarder_and_lives) \
	row(a_socket_outlives_the_process_that_made_it) \
	row(four_threads_on_one_socket_that_is_closed_meanwhile_harm_nobody) \
	row(full_tables_are_listed_cleared_and_expired_in_short_passages) \
	row(closing_and_removing_under_load_takes_no_longer_than_three_times_as_idle) \
	row(tcp_and_named_data_share_a_device_and_neither_starves) \
	row(random_calls_harm_nobody) \
	row(the_module_goes_and_comes_under_load_and_leaves_nothing)

/* These need a kernel that refuses memory on purpose. */
#define TESTS_OF_MEMORY(row) \
	row(every_allocation_of_a_new_forwarder_may_fail) \
	row(every_allocation_of_every_call_may_fail) \
	row(a_tenth_of_all_memory_refused_while_packets_flow_loses_packets_alone) \
	row(every_allocation_of_a_namespace_with_the_module_may_fail)

/* These leave stopped forwarders and their memory behind. They need a module with planted=1. */
#define TESTS_OF_PANICS(row) \
	row(a_panic_stops_one_namespace_and_no_other) \
	row(who_waits_for_a_lock_of_a_stopped_forwarder_leaves)

/* Prints figures, for kernel/run --figures. */
#define FIGURES(row) \
	row(hits_in_the_kernel_and_outside) \
	row(exchanges_by_one_and_two_processors) \
	row(exchanges_over_a_veth_pair) \
	row(fifteen_consumers_of_objects) \
	row(a_gigabit_in_frames_of_1500_octets)

#define DECLARE(name) TEST(name);
TESTS(DECLARE)
TESTS_OF_CONTENTS(DECLARE)
TESTS_OF_FAULTS(DECLARE)
TESTS_OF_MEMORY(DECLARE)
TESTS_OF_PANICS(DECLARE)
FIGURES(DECLARE)

#define ENTER(name) { #name, name, "all" },
#define ENTER_OF_MEMORY(name) { #name, name, "memory" },
#define ENTER_OF_PANICS(name) { #name, name, "panics" },
#define ENTER_OF_FIGURES(name) { #name, name, "figures" },
static const struct {
	const char *name;
	void (*run)(void);
	const char *group;
} tests[] = {
	TESTS(ENTER) TESTS_OF_CONTENTS(ENTER) TESTS_OF_FAULTS(ENTER) TESTS_OF_MEMORY(ENTER_OF_MEMORY) TESTS_OF_PANICS(ENTER_OF_PANICS)
	FIGURES(ENTER_OF_FIGURES)
};

unsigned long number_given(const char *name, unsigned long otherwise)
{
	const char *given = getenv(name);

	return given ? strtoul(given, NULL, 10) : otherwise;
}

/* Runs a test in a process group, which is killed: leftover processes would hold the module. */
static bool passes(void (*run)(void), unsigned int seconds_max)
{
	int status;
	bool passed;
	pid_t child = fork();

	if (!child) {
		setpgid(0, 0);
		alarm(seconds_max);
		run();
		_exit(0);
	}
	setpgid(child, child);
	passed = waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status);
	if (kill(-child, SIGKILL) == 0)
		while (waitpid(-child, NULL, 0) > 0 || errno == EINTR)
			;
	return passed;
}

int main(int count, char **names)
{
	const struct rlimit files = { 4096, 4096 };
	const char *group = count > 1 ? names[1] : "all";
	int passed = 0, failed = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	setrlimit(RLIMIT_NOFILE, &files);
	/* Processes that tests leave behind are waited for here. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		bool wanted = count < 3, passed_now;
		time_t start = time(NULL);

		for (int n = 2; n < count; n++)
			wanted |= strstr(tests[i].name, names[n]) != NULL;
		if (!wanted || strcmp(tests[i].group, group))
			continue;
		passed_now = passes(tests[i].run, strcmp(group, "figures") ? SECONDS_MAX : FIGURE_SECONDS_MAX);
		printf("%s %s\n", passed_now ? "ok" : "FAILED", tests[i].name);
		if (time(NULL) - start > 4)
			printf("  (%ld s)\n", (long)(time(NULL) - start));
		passed += passed_now;
		failed += !passed_now;
	}
	printf("guest: %d passed, %d failed\n", passed, failed);
	return failed > 0;
}
