"""The refusals of the service, each with the status and the code that callers over HTTP get.

RequestRefusedError
├── OtherUserError            403  the caller may not act for that user
├── UnknownWorkflowError      404  there is no such version of a workflow
├── NoOutputError             404  no output of that run is kept
├── UnknownNodeError          404  no worker of the cluster has that name
├── AmbiguousNodeError        409  several workers of the cluster have that name
├── WorkflowExistsError       409  that version is stored with another DAG
├── WorkflowInUseError        409  schedules start that version
├── OutdatedPlanError         409  a schedule is not as it was when it was previewed
└── DamagedScheduleError      409  the row of a schedule cannot be read
"""

from __future__ import annotations

from dutiful.core.errors import quoted
from dutiful.httpd.errors import RequestRefusedError


class OtherUserError(RequestRefusedError):
    """A caller requests something in the name of a user for whom it may not act."""

    status = 403
    code = "other_user"

    def __init__(self, user_id: str) -> None:
        advice = "name it in `act_as` of your token, or use one with the scope 'admin'"
        super().__init__(f"You may not act for the user {quoted(user_id)!r}; {advice}", user_id=user_id)


class UnknownWorkflowError(RequestRefusedError):
    """There is no such version of a workflow."""

    status = 404
    code = "unknown_workflow"

    def __init__(self, workflow_id: str, version: int) -> None:
        message = f"There is no version {version} of the workflow {quoted(workflow_id)!r}"
        super().__init__(message, workflow_id=workflow_id, version=version)


class NoOutputError(RequestRefusedError):
    """No output of a run is kept in this process's folder."""

    status = 404
    code = "no_output"

    def __init__(self, idempotency_key: str) -> None:
        message = "No output of this run is kept here; DUTIFUL_OUTPUT_DIR keeps that of commands"
        super().__init__(message, idempotency_key=idempotency_key)


class UnknownNodeError(RequestRefusedError):
    """No worker of the cluster has this name or id."""

    status = 404
    code = "unknown_node"

    def __init__(self, node: str, known: list[str]) -> None:
        there = f"there are {', '.join(known)}" if known else "no worker has joined"
        super().__init__(f"There is no node {quoted(node)!r}; {there}", node=node, known=known)


class AmbiguousNodeError(RequestRefusedError):
    """Several workers of the cluster have this name."""

    status = 409
    code = "ambiguous_node"

    def __init__(self, node: str, ids: list[str]) -> None:
        problem = f"There are {len(ids)} nodes named {quoted(node)!r}"
        super().__init__(f"{problem}; name one by its id: {', '.join(ids)}", node=node, ids=ids)


class WorkflowExistsError(RequestRefusedError):
    """This version of a workflow is already stored with another DAG."""

    status = 409
    code = "workflow_exists"

    def __init__(self, workflow_id: str, version: int) -> None:
        message = f"Version {version} of {quoted(workflow_id)!r} is stored with another DAG"
        advice = "store the next version, or replace this one with ?replace=true"
        super().__init__(f"{message}; {advice}", workflow_id=workflow_id, version=version)


class WorkflowInUseError(RequestRefusedError):
    """A version of a workflow cannot be deleted: schedules start it, some of them perhaps of other users."""

    status = 409
    code = "workflow_in_use"

    def __init__(self, workflow_id: str, version: int, schedules: list[str], others: int = 0) -> None:
        named = ", ".join(schedules[:3]) + (" and more" if len(schedules) > 3 else "")
        foreign = f"{others} {'schedule' if others == 1 else 'schedules'} of other users" if others else ""
        message = (
            f"Version {version} of {quoted(workflow_id)!r} is started by"
            f" {' and '.join(filter(None, (named, foreign)))}; edit or delete these first"
        )
        super().__init__(
            message, workflow_id=workflow_id, version=version, schedules=schedules, others=others
        )


class OutdatedPlanError(RequestRefusedError):
    """A schedule is no longer as it was when its upsert was previewed, so nothing is stored."""

    status = 409
    code = "outdated_plan"

    def __init__(self, schedule_id: str) -> None:
        message = f"The schedule {quoted(schedule_id)!r} was changed since it was previewed"
        super().__init__(f"{message}; nothing is stored, preview it again", schedule_id=schedule_id)


class DamagedScheduleError(RequestRefusedError):
    """The row of a schedule cannot be read."""

    status = 409
    code = "damaged_schedule"

    def __init__(self, schedule_id: str, problem: str) -> None:
        message = f"The row of the schedule {quoted(schedule_id)!r} cannot be read: {problem}"
        advice = "store it again, or delete it"
        super().__init__(f"{message}; {advice}", schedule_id=schedule_id, problem=problem)
