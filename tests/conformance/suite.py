"""The conformance kit: what every database must do to carry Rowcall. A new database is done when it passes.

`cases/` has one module for each subject, `model/` a model of the queue in plain Python and Hypothesis machines that
drive it next to a real store. A module of tests binds all cases to a database with one fixture, which opens an empty
store:

    from tests.conformance.suite import *

    @pytest.fixture
    def new_store(tmp_path: Path) -> Callable[[], Store]: ...

A second fixture, `new_migrated_store`, may return copies of a store that has the tables already: that is quicker.
See `tests.conformance.store` for what a store is.
"""

from __future__ import annotations

import pytest

# before they are imported, so that their assertions say what they saw
pytest.register_assert_rewrite("tests.conformance.cases")

from tests.conformance.cases.alerts import TestAlertsAreSent, TestOneOfManyWatches  # noqa: E402
from tests.conformance.cases.aliases import TestAliases  # noqa: E402
from tests.conformance.cases.approvals import TestApprovals  # noqa: E402
from tests.conformance.cases.async_twins import TestAsyncTwins  # noqa: E402
from tests.conformance.cases.attention import (  # noqa: E402
    TestAllIsWell,
    TestAttemptsGoWrong,
    TestJobsAreKeptFromRunning,
    TestNobodyRunsJobs,
    TestTheMachine,
)
from tests.conformance.cases.batch_handlers import TestBatchHandlers  # noqa: E402
from tests.conformance.cases.batches import TestBatches  # noqa: E402
from tests.conformance.cases.blockers import TestBlockers  # noqa: E402
from tests.conformance.cases.by_hand import TestByHand  # noqa: E402
from tests.conformance.cases.calls import TestCalls, TestFamilies, TestFirst, TestGatheredCalls  # noqa: E402
from tests.conformance.cases.cancelling import (  # noqa: E402
    TestCancelByFilter,
    TestCancelRunning,
    TestCancelSurvives,
    TestCancelTakesAlong,
)
from tests.conformance.cases.chain_keeping import TestCancellingChains, TestDeletingChains, TestListingChains  # noqa: E402
from tests.conformance.cases.chains import (  # noqa: E402  # noqa: E402
    TestChainResults,
    TestChainRows,
    TestCompletedByHand,
    TestFixedChains,
)
from tests.conformance.cases.claim import TestClaim  # noqa: E402
from tests.conformance.cases.claim_order import TestClaimOrder  # noqa: E402
from tests.conformance.cases.claim_rows import TestClaimRows  # noqa: E402
from tests.conformance.cases.clock_jumps import TestClockJumps  # noqa: E402
from tests.conformance.cases.code_changes import TestCodeChanges  # noqa: E402
from tests.conformance.cases.continue_with import TestGoingOn  # noqa: E402
from tests.conformance.cases.control import (  # noqa: E402
    TestCancel,
    TestDelete,
    TestPriority,
    TestReschedule,
    TestRetry,
)
from tests.conformance.cases.crash import TestCrash, TestStorm  # noqa: E402
from tests.conformance.cases.dependencies import TestDependencies  # noqa: E402
from tests.conformance.cases.edge_repair import TestEdgeRepair, TestSentAgain  # noqa: E402
from tests.conformance.cases.encryption import TestEncryption  # noqa: E402
from tests.conformance.cases.ended_outside import TestEndedFromOutside  # noqa: E402
from tests.conformance.cases.ends import TestEnds  # noqa: E402
from tests.conformance.cases.enqueue import TestEnqueue  # noqa: E402
from tests.conformance.cases.events import TestEvents  # noqa: E402
from tests.conformance.cases.expiry import TestDeadline, TestExpiry  # noqa: E402
from tests.conformance.cases.failing_blockers import TestFailingBlockers  # noqa: E402
from tests.conformance.cases.failures import TestFailures, TestSecrets  # noqa: E402
from tests.conformance.cases.fairness import TestFairness, TestUnfairInput  # noqa: E402
from tests.conformance.cases.fence import TestFence  # noqa: E402
from tests.conformance.cases.flow_processes import TestFlowProcesses  # noqa: E402
from tests.conformance.cases.graph_storm import TestGraphStorm  # noqa: E402
from tests.conformance.cases.graphs import TestGraphs, TestNeeded  # noqa: E402
from tests.conformance.cases.history import TestHistory  # noqa: E402
from tests.conformance.cases.job_logs import TestJobLogs  # noqa: E402
from tests.conformance.cases.keys import TestKeys, TestKeysOfTasks  # noqa: E402
from tests.conformance.cases.levers import TestLevers  # noqa: E402
from tests.conformance.cases.lifecycle import TestLifecycle  # noqa: E402
from tests.conformance.cases.lifespans import TestLifespans  # noqa: E402
from tests.conformance.cases.limit_holds import TestBreakers, TestLimitHolds  # noqa: E402
from tests.conformance.cases.limit_units import TestLimitUnits  # noqa: E402
from tests.conformance.cases.limits import (  # noqa: E402
    TestLimits,
    TestLimitsOfProcesses,
    TestLimitsOfThreads,
    TestRateLimits,
)
from tests.conformance.cases.limits_of_handlers import TestLimitsOfHandlers, TestSlotsOfWorkers  # noqa: E402
from tests.conformance.cases.listing import TestActOnAll, TestListing  # noqa: E402
from tests.conformance.cases.long_handlers import TestLongHandlers  # noqa: E402
from tests.conformance.cases.middleware import TestEnqueueMiddleware, TestMiddleware  # noqa: E402
from tests.conformance.cases.migrations import TestMigrations  # noqa: E402
from tests.conformance.cases.mismatches import TestMismatches, TestUnknownTasks  # noqa: E402
from tests.conformance.cases.model import TestModel  # noqa: E402
from tests.conformance.cases.observing import TestActivity, TestCounts, TestPace, TestQuestions  # noqa: E402
from tests.conformance.cases.ordered import TestOrderedJobs, TestOrderStorm  # noqa: E402
from tests.conformance.cases.outcomes import TestOutcomes, TestOutcomesOfKilledWorkers  # noqa: E402
from tests.conformance.cases.pausing import TestPausing  # noqa: E402
from tests.conformance.cases.plain_sql import TestPlainSql  # noqa: E402
from tests.conformance.cases.processes import TestProcesses  # noqa: E402
from tests.conformance.cases.progress import TestProgress  # noqa: E402
from tests.conformance.cases.pushing import TestPushing  # noqa: E402
from tests.conformance.cases.recovery import TestLeasesByHand, TestLostWorkers  # noqa: E402
from tests.conformance.cases.replays import TestReplays  # noqa: E402
from tests.conformance.cases.requests import TestRequests  # noqa: E402
from tests.conformance.cases.results import TestResults  # noqa: E402
from tests.conformance.cases.retention import TestClear, TestRetention  # noqa: E402
from tests.conformance.cases.retrying import TestRetryByFilter, TestTimesAndErrors  # noqa: E402
from tests.conformance.cases.schedules import (  # noqa: E402
    TestDeclaredSchedules,
    TestScheduleRaces,
    TestSchedules,
)
from tests.conformance.cases.settle import TestSettle  # noqa: E402
from tests.conformance.cases.stacks import TestStacks  # noqa: E402
from tests.conformance.cases.stage import TestStage  # noqa: E402
from tests.conformance.cases.step_storm import TestStepStorm  # noqa: E402
from tests.conformance.cases.steps import TestSignals, TestSleeps, TestStepFence, TestSteps  # noqa: E402
from tests.conformance.cases.stopping import TestStopping  # noqa: E402
from tests.conformance.cases.streams import TestStreams  # noqa: E402
from tests.conformance.cases.threads import TestThreads  # noqa: E402
from tests.conformance.cases.trace import TestTraceContext  # noqa: E402
from tests.conformance.cases.transaction import TestTransaction, TestTransactionCrash  # noqa: E402
from tests.conformance.cases.turns import TestRetryOfAKey, TestTurns  # noqa: E402
from tests.conformance.cases.why import TestWhy, TestWhyQueuesWait  # noqa: E402
from tests.conformance.fixtures import (  # noqa: E402
    clock,
    jobs,
    new_migrated_store,
    notes,
    open_queue,
    start_program,
    store,
)

__all__ = [
    "TestActOnAll",
    "TestActivity",
    "TestAlertsAreSent",
    "TestAliases",
    "TestAllIsWell",
    "TestApprovals",
    "TestAsyncTwins",
    "TestAttemptsGoWrong",
    "TestBatchHandlers",
    "TestBatches",
    "TestBlockers",
    "TestBreakers",
    "TestByHand",
    "TestCalls",
    "TestCancel",
    "TestCancelByFilter",
    "TestCancelRunning",
    "TestCancelSurvives",
    "TestCancelTakesAlong",
    "TestCancellingChains",
    "TestChainResults",
    "TestChainRows",
    "TestClaim",
    "TestClaimOrder",
    "TestClaimRows",
    "TestClear",
    "TestClockJumps",
    "TestCodeChanges",
    "TestCompletedByHand",
    "TestCounts",
    "TestCrash",
    "TestDeadline",
    "TestDeclaredSchedules",
    "TestDelete",
    "TestDeletingChains",
    "TestDependencies",
    "TestEdgeRepair",
    "TestEncryption",
    "TestEndedFromOutside",
    "TestEnds",
    "TestEnqueue",
    "TestEnqueueMiddleware",
    "TestEvents",
    "TestExpiry",
    "TestFailingBlockers",
    "TestFailures",
    "TestFairness",
    "TestFamilies",
    "TestFence",
    "TestFirst",
    "TestFixedChains",
    "TestFlowProcesses",
    "TestGatheredCalls",
    "TestGoingOn",
    "TestGraphStorm",
    "TestGraphs",
    "TestHistory",
    "TestJobLogs",
    "TestJobsAreKeptFromRunning",
    "TestKeys",
    "TestKeysOfTasks",
    "TestLeasesByHand",
    "TestLevers",
    "TestLifecycle",
    "TestLifespans",
    "TestLimitHolds",
    "TestLimitUnits",
    "TestLimits",
    "TestLimitsOfHandlers",
    "TestLimitsOfProcesses",
    "TestLimitsOfThreads",
    "TestListing",
    "TestListingChains",
    "TestLongHandlers",
    "TestLostWorkers",
    "TestMiddleware",
    "TestMigrations",
    "TestMismatches",
    "TestModel",
    "TestNeeded",
    "TestNobodyRunsJobs",
    "TestOneOfManyWatches",
    "TestOrderStorm",
    "TestOrderedJobs",
    "TestOutcomes",
    "TestOutcomesOfKilledWorkers",
    "TestPace",
    "TestPausing",
    "TestPlainSql",
    "TestPriority",
    "TestProcesses",
    "TestProgress",
    "TestPushing",
    "TestQuestions",
    "TestRateLimits",
    "TestReplays",
    "TestRequests",
    "TestReschedule",
    "TestResults",
    "TestRetention",
    "TestRetry",
    "TestRetryByFilter",
    "TestRetryOfAKey",
    "TestScheduleRaces",
    "TestSchedules",
    "TestSecrets",
    "TestSentAgain",
    "TestSettle",
    "TestSignals",
    "TestSleeps",
    "TestSlotsOfWorkers",
    "TestStacks",
    "TestStage",
    "TestStepFence",
    "TestStepStorm",
    "TestSteps",
    "TestStopping",
    "TestStorm",
    "TestStreams",
    "TestTheMachine",
    "TestThreads",
    "TestTimesAndErrors",
    "TestTraceContext",
    "TestTransaction",
    "TestTransactionCrash",
    "TestTurns",
    "TestUnfairInput",
    "TestUnknownTasks",
    "TestWhy",
    "TestWhyQueuesWait",
    "clock",
    "jobs",
    "new_migrated_store",
    "notes",
    "open_queue",
    "start_program",
    "store",
]
