// The shares of clients, with each way in which one client tries to take all. XRootD is not needed.
#include "../src/catalogue.hh"
#include "../src/figures.hh"
#include "../src/jobs.hh"
#include "../src/listing.hh"
#include "../src/once.hh"
#include "../src/share.hh"
#include "../src/workers.hh"

#include <atomic>
#include <cstdio>
#include <map>
#include <random>
#include <sstream>

using namespace namely;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

static int checked = 0, wrong = 0;

static void check(const char *what, bool holds) {
    checked++;
    if (!holds) {
        wrong++;
        std::printf("not so: %s\n", what);
    }
}

static void a_client_with_forty_calls_leaves_others_theirs() {
    Share calls(40);
    int had = 0;
    while (calls.try_take("greedy", 1))
        had++;
    check("a client alone has half", had == 20);
    check("one more is waited for in vain", !calls.take("greedy", 1, steady_clock::now() + milliseconds(20)));
    check("another client has its first at once", calls.try_take("b", 1));
    int others = 1;
    while (calls.try_take("b", 1))
        others++;
    check("and a share", others == 10);
    for (int i = 0; i < 5; i++)
        check("whoever comes has one", calls.try_take("client" + std::to_string(i), 1));
    calls.give_back("greedy", 20);
    check("what is given back is there", calls.try_take("c", 10));
    Share one(1);
    check("of one thing a client has all", one.try_take("a", 1) && !one.try_take("b", 1));
    Share memory(1000);
    check("more than all counts as all", memory.try_take("a", 5000) && !memory.try_take("b", 1));
    memory.give_back("a", 5000);
    check("and comes back as all", memory.try_take("b", 1000) && memory.clients() == 1);
    check("nothing is always there", memory.try_take("c", 0) && memory.clients() == 1);
}

static void whatever_clients_do_a_new_one_has_its_part() {
    std::mt19937 random(11);
    for (int round = 0; round < 300; round++) {
        const size_t all = 1 + random() % 64;
        Share share(all);
        std::map<std::string, size_t> held;
        size_t left = all;
        for (int step = 0; step < 200; step++) {
            const std::string client(1, char('a' + random() % 5));
            const size_t many = 1 + random() % 4;
            if (random() % 3 != 0) {
                const size_t before = held[client];
                const bool may = many <= left && (before == 0 || before + many <= left - many);
                const size_t within = std::min(many, all);
                const bool had = share.try_take(client, many);
                check("the rule holds", had == (within == many ? may : before == 0 && left == all));
                if (had)
                    held[client] += within, left -= within;
            } else if (held[client] >= many) {
                share.give_back(client, many);
                held[client] -= many, left += many;
            }
        }
        if (left > 0)
            check("a new client has one", share.try_take("new", 1));
    }
}

static void work_of_one_client_leaves_threads_for_another() {
    std::atomic<bool> stuck{true};
    std::atomic<int> done{0};
    Workers workers(4, 64);
    int ordered = 0;
    const auto wait = [&] {
        while (stuck)
            std::this_thread::sleep_for(milliseconds(1));
    };
    while (ordered < 100 && workers.order("greedy", wait))
        ordered++;
    check("a client has a share of the queue", ordered >= 32 && ordered < 64);
    check("another one's is ordered", workers.order("b", [&] { done++; }) && workers.order("b", [&] { done++; }));
    const auto until = steady_clock::now() + std::chrono::seconds(10);
    while (done < 2 && steady_clock::now() < until)
        std::this_thread::sleep_for(milliseconds(1));
    check("and done beside work that is stuck", done == 2);
    stuck = false;
}

static steady_clock::time_point soon() { return steady_clock::now() + milliseconds(20); }

static void a_client_has_half_of_the_sum_jobs() {
    Jobs jobs(8, hours(1));
    for (int i = 0; i < 4; i++)
        check("a client has half", jobs.ask("/greedy/" + std::to_string(i), "greedy", soon()));
    check("another client has its first", jobs.ask("/b/0", "b", soon()) && jobs.ask("/b/1", "b", soon()));
    check("and nothing was refused", jobs.refused() == 0 && jobs.under_way() == 6);
    // The server does not state the client of a job.
    const RunningJob first(jobs, "/greedy/0", "", soon()), other(jobs, "/b/0", "", soon());
    check("a job is its client's", first && first.client() == "greedy" && other && other.client() == "b");
    // The server runs one job for all clients that want the sum of a file.
    check("another client joins a job", jobs.ask("/greedy/0", "b", soon()) && jobs.under_way() == 6);
}

static void a_client_beyond_its_sum_jobs_occupies_none() {
    Jobs jobs(8, hours(1));
    for (int i = 0; i < 4; i++)
        jobs.ask("/greedy/" + std::to_string(i), "greedy", soon());
    check("one more has no place", !jobs.ask("/greedy/4", "greedy", soon()) && jobs.refused() == 1);
    check("and occupies no job", jobs.under_way() == 4);
    bool has_place = false;
    std::thread waiting([&] {
        has_place = jobs.ask("/greedy/5", "greedy", steady_clock::now() + std::chrono::seconds(10));
    });
    { const RunningJob ends(jobs, "/greedy/0", "", soon()); }
    waiting.join();
    check("the place of a job that ended is taken", has_place && jobs.refused() == 1);
    check("another client has its own", jobs.ask("/b/0", "b", soon()));
}

static void a_place_without_a_job_lapses() {
    Jobs jobs(8, milliseconds(50));
    for (int i = 0; i < 4; i++)
        jobs.ask("/greedy/" + std::to_string(i), "greedy", soon());
    const RunningJob runs(jobs, "/greedy/1", "greedy", soon());
    std::this_thread::sleep_for(milliseconds(100));
    check("the places of clients that left are free", jobs.ask("/greedy/9", "greedy", soon()));
    check("but not that of a job that runs", runs && jobs.under_way() == 2);
    const RunningJob unasked(jobs, "/d/0", "", soon());
    check("a job that no client asked for has one, too", bool(unasked));
}

static void a_sum_that_several_want_is_made_once() {
    Once<int> sums;
    std::atomic<int> made{0}, right{0};
    std::atomic<bool> goes_on{false};
    std::vector<std::thread> clients;
    for (int i = 0; i < 16; i++) {
        clients.emplace_back([&] {
            int value = 0;
            const int done = sums.get("file", value, [&](int &sum) {
                made++;
                while (!goes_on)
                    std::this_thread::sleep_for(milliseconds(1));
                sum = 7;
                return 0;
            });
            right += done == 0 && value == 7;
        });
    }
    int other = 0;
    check("another file does not wait", sums.get("other", other, [](int &sum) { return sum = 1, 0; }) == 0);
    std::this_thread::sleep_for(milliseconds(100));
    goes_on = true;
    for (std::thread &client : clients)
        client.join();
    check("one made it", made == 1 && right == 16);
    check("nothing is left", sums.under_way() == 0);
}

static void a_refusal_of_one_is_none_of_another() {
    for (const int refusal : {-EDQUOT, -ETIMEDOUT, -EIO}) {
        Once<int> sums;
        std::atomic<bool> began{false};
        int first = 0, second = 0, value = 0;
        std::thread poor([&] {
            int none = 0;
            first = sums.get("file", none, [&](int &) {
                began = true;
                std::this_thread::sleep_for(milliseconds(50));
                return refusal;
            });
        });
        while (!began)
            std::this_thread::sleep_for(milliseconds(1));
        second = sums.get("file", value, [](int &sum) { return sum = 7, 0; });
        poor.join();
        check("who may not is refused", first == refusal);
        // An error of the file concerns all waiting clients.
        check("who may is not", refusal == -EIO ? second == -EIO : second == 0 && value == 7);
    }
}

static void a_client_has_a_days_budget_and_no_more() {
    Budget budget(100, 3);
    const auto now = steady_clock::now();
    check("all of it at once", budget.take("a", 100, now));
    check("and no more", !budget.take("a", 1, now));
    check("another client has its own", budget.take("b", 60, now));
    check("half a day gives half back", budget.take("a", 50, now + hours(12)) && !budget.take("a", 1, now + hours(12)));
    check("more than all is never there", !budget.take("c", 101, now + hours(100)));
    for (int i = 0; i < 50; i++)
        budget.take("x" + std::to_string(i), 1, now + hours(12));
    check("so many clients are known", budget.clients() == 3);
    check("and who spent most stays known", !budget.take("a", 51, now + hours(12)));
}

static std::string names_of(const std::string &octets) {
    Listing listing;
    if (!listing.take(octets))
        return "none";
    std::string all;
    for (std::string name; listing.next(name);)
        all += name + "|";
    return all;
}

static void a_listing_is_read_or_refused_whole() {
    using namespace std::string_literals;
    check("files and directories", names_of("a\0b/\0c d\0"s) == "a|b|c d|");
    check("of nothing", names_of("").empty());
    for (const std::string &octets : {"a"s, "a\0b"s, "\0"s, "/\0"s, ".\0"s, "../\0"s, "a\0a/b\0"s, "a//\0"s})
        check("what leads out or has no end", names_of(octets) == "none");
    std::mt19937 random(5);
    for (int round = 0; round < 20000; round++) {
        std::string octets;
        for (size_t i = random() % 12; i > 0; i--)
            octets += "a./\0"[random() % 4];
        const std::string names = names_of(octets);
        check("no name leads out", names == "none" || names.find('/') == std::string::npos);
    }
}

static void a_catalogue_tells_sums_of_files_of_that_size() {
    Catalogue catalogue;
    std::istringstream text("# of whom\n\ncatalogue\t7\n/P/R/T#1\t30\n\t/store/a\t10\n\t/store/b\t20\t00a0ff17\n");
    check("it is read", catalogue.read(text).empty() && catalogue.files() == 1);
    uint32_t sum = 0;
    check("a sum is known", catalogue.adler32("/store/b", 20, sum) && sum == 0x00a0ff17);
    check("not of another size", !catalogue.adler32("/store/b", 21, sum));
    check("nor of what has none", !catalogue.adler32("/store/a", 10, sum) && !catalogue.adler32("/c", 1, sum));
    for (const char *bad : {"", "#\n", "x\t1\n", "catalogue\t1\n\t/a\tx\t00000000\n", "catalogue\t1\n\t/a\t1\t0\n",
                            "catalogue\t1\n\t/a\t1\t0000000G\n", "catalogue\t1\n\t/a\n", "catalogue\t1\n/a\n",
                            "catalogue\t1\n\t/a\t9999999999999999999\t00000000\n"}) {
        std::istringstream lines(bad);
        check("what is wrong is refused", !catalogue.read(lines).empty());
    }
    check("and changes nothing", catalogue.adler32("/store/b", 20, sum));
    const std::string head = "catalogue\t1\n";
    std::istringstream longest(head + std::string(catalogue_line_octets_max - 2, 'x') + "\t1\n");
    check("a line at the limit is read", catalogue.read(longest).empty());
    std::string most = head;
    for (size_t i = 0; i < catalogue_files_max; i++)
        most += "\t/" + std::to_string(i) + "\t1\t00000000\n";
    std::istringstream all(most), more(most + "\t/x\t1\t00000000\n");
    Catalogue large;
    check("as many files as may be are known", large.read(all).empty() && large.files() == catalogue_files_max);
    check("and one more is refused", !large.read(more).empty());
    std::istringstream longer(head + std::string(catalogue_line_octets_max - 1, 'x') + "\t1\n");
    check("and one longer is not", !catalogue.read(longer).empty());
}

static void figures_are_counted_and_reported() {
    Figures figures;
    check("a result is returned", figures.call(Figure::opens, Figure::open_errors, 0) == 0);
    check("an error, too", figures.call(Figure::opens, Figure::open_errors, -EIO) == -EIO);
    check("a read has octets", figures.read(Figure::reads, 4096) == 4096 && figures.read(Figure::vectors, 4) == 4);
    check("a failed one has none", figures.read(Figure::reads, -EIO) == -EIO && figures.of(Figure::octets) == 4100);
    check("in a line", figures.line() == "opens=1 open_errors=1 lookups=0 lookup_errors=0 listings=0 listing_errors=0 "
                                         "reads=1 vectors=1 read_errors=1 octets=4100 sums=0 sum_errors=0 refused=0");
    const std::string xml = figures.xml();
    check("in XML", xml.find("<stats id=\"namely\"><opens>1</opens>") == 0 && xml.find("<octets>4100</octets>") != xml.npos);
    for (size_t i = 0; i < Figures::names.size(); i++)
        figures.add(Figure(i), UINT64_MAX - figures.of(Figure(i)));
    check("the longest fits", figures.xml().size() < Figures::xml_octets_max);
}

static void reports_end_with_their_owner() {
    std::atomic<int> ticks{0};
    {
        Ticker ticker;
        ticker.start(milliseconds(1), [&] { ticks++; });
        const auto until = steady_clock::now() + std::chrono::seconds(10);
        while (ticks < 2 && steady_clock::now() < until)
            std::this_thread::sleep_for(milliseconds(1));
    }
    check("a report follows another", ticks >= 2);
    // One that never began ends, too.
    const Ticker idle;
}

int main() {
    a_client_with_forty_calls_leaves_others_theirs();
    whatever_clients_do_a_new_one_has_its_part();
    work_of_one_client_leaves_threads_for_another();
    a_client_has_half_of_the_sum_jobs();
    a_client_beyond_its_sum_jobs_occupies_none();
    a_place_without_a_job_lapses();
    a_sum_that_several_want_is_made_once();
    a_refusal_of_one_is_none_of_another();
    a_client_has_a_days_budget_and_no_more();
    a_listing_is_read_or_refused_whole();
    a_catalogue_tells_sums_of_files_of_that_size();
    figures_are_counted_and_reported();
    reports_end_with_their_owner();
    std::printf("%s, %d wrong\n", checked > 0 ? "checked" : "nothing checked", wrong);
    return wrong == 0 ? 0 : 1;
}
