"""A run that asked an endpoint in vain: it fails, and says where that was and what it heard."""

import json
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from bench.cli.main import main
from bench.models.client import ErrorStreak
from tests.support.answers import envelope
from tests.support.servers import json_server

FINE = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "x"}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1},
}


def answering(*statuses: int, port: int = 0) -> AbstractContextManager[str]:
    """A model whose endpoint answers with these in turn, then with the last; 0 breaks off."""
    left = [*statuses]

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, object] | None:
        if request.command == "GET":
            return 200, {"status": "ok", "upstream": "simulated", "mode": "live"}
        if request.path.startswith("/v1/calls"):
            return 404, {}  # a gateway before streams of calls
        status = left.pop(0) if len(left) > 1 else left[0]
        said = {**FINE, **envelope(1)} if status == 200 else {"error": {"message": "not so"}}
        return (status, said) if status else None

    return json_server(answer, port)


def run(*options: str) -> Result:
    command = ["run", "starter", "--episodes", "3", "--out", "out", *options]
    return CliRunner(env={"FINPORT_CACHE_DIR": "cache"}).invoke(main, command)


def model(url: str) -> tuple[str, ...]:
    asked = ("--agent", "llm", "--model", "m", "--base-url", f"{url}/v1")
    return (*asked, "--upstream", "simulated")


def judge(url: str) -> tuple[str, ...]:
    return ("--judge", "llm", "--judge-model", "j", "--judge-base-url", f"{url}/v1")


@pytest.mark.parametrize("status", [401, 404])
def test_a_model_that_never_answered_fails_the_run_and_is_named(status: int) -> None:
    with answering(status) as url:
        done = run(*model(url), "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout)["usage"]["model_calls"]["failed"] == 3
    assert f"the agent's model at {url}/v1 answered none of 3 requests" in done.stderr
    assert f"answered {status}" in done.stderr
    assert "not so" in done.stderr


def test_a_model_that_answered_once_fails_no_run_and_the_rest_is_counted() -> None:
    with answering(200, 404) as url:
        done = run(*model(url), "--concurrency", "1", "--judge", "none")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "the agent's model: 3 requests in 3 attempts, 2 failed" in done.stdout


def test_a_judge_that_never_answered_fails_the_run_and_is_named() -> None:
    with answering(401) as url:
        done = run(*judge(url), "--upstream", "simulated")
    assert done.exit_code == 1
    assert f"the judge's model at {url}/v1 answered none of" in done.stderr
    assert "answered 401" in done.stderr
    assert "the first judge: the model's endpoint answered 401" in done.stdout
    assert "TESR" in done.stdout
    with answering(401) as other:
        asked = (*judge(other), "--upstream", "simulated", "--resume")
        refused = run(*asked)
        assert refused.exit_code == 1
        moved = f"judge_base_url was '{url}/v1' and is '{other}/v1'"
        assert moved in refused.stderr
        assert f"the judge's model at {other}/v1" in run(*asked, "--accept-changes").stderr
    assert json.loads(Path("out/run.json").read_text())["accepted"] == [moved]


def test_a_judge_that_answers_no_request_of_score_fails_it() -> None:
    assert run("--upstream", "simulated").exit_code == 0
    with answering(401) as url:
        done = CliRunner().invoke(main, ["score", "out", *judge(url)])
    assert done.exit_code == 1
    assert f"the judge's model at {url}/v1 answered none of" in done.stderr


def test_a_gateway_that_never_answered_a_call_fails_the_run_and_is_named() -> None:
    with answering(0) as url:
        done = run("--gateway", url, "--no-call-rate", "0")
    assert done.exit_code == 1
    assert f"the gateway at {url} answered none of" in done.stderr
    assert "the gateway did not answer: ServerDisconnectedError" in done.stderr


def test_a_run_says_if_its_gateway_has_no_streams_of_calls() -> None:
    with answering(200) as url:
        done = run("--gateway", url)
    assert done.exit_code == 0
    assert "each call was a request of its own, which is slower" in done.stderr
    assert "has no streams of calls (status 404)" in done.stderr
    about = json.loads(Path("out/run.json").read_text())
    assert "(status 404)" in about["gateway_calls"]["no_streams"]


def test_a_run_that_asked_nobody_is_no_failure() -> None:
    assert run("--upstream", "simulated", "--no-call-rate", "1").exit_code == 0


def many(url: str, *options: str, episodes: int = 60) -> Result:
    how = ("--episodes", str(episodes), "--concurrency", "1", "--judge", "none", "--top-k", "0")
    return run(*model(url), *how, *options)


def recorded() -> list[str]:
    lines = Path("out/episodes.jsonl").read_text().splitlines()
    return [json.loads(line)["ending"] for line in lines]


def test_a_model_that_is_down_ends_the_run_which_goes_on_once_it_answers() -> None:
    with answering(*[200] * 5, 401) as url:
        done = many(url)
        assert done.exit_code == 1
        assert done.stderr.count("not so") == 1
        said = f"the agent's model at {url}/v1 gave the same error 20 times in a row: "
        assert f"{said}the model's endpoint answered 401" in done.stderr
        assert "--resume --failed-too goes on with the run in out" in done.stderr
        assert recorded() == ["answer"] * 5 + ["model_error"] * 20
        about = json.loads(Path("out/run.json").read_text())
        assert (about["ended"], about["files"]["episodes.jsonl"]["bytes"] > 0) == (
            "interrupted",
            True,
        )
    with answering(200) as other:
        refused = many(other, "--resume", "--failed-too")
        assert f"base_url was '{url}/v1' and is '{other}/v1'" in refused.stderr
    port = url.rpartition(":")[2]
    with answering(200, port=int(port)) as again:
        assert again == url
        assert many(again, "--resume", "--failed-too").exit_code == 0
    assert recorded() == ["answer"] * 60


def test_a_model_that_errs_in_many_ways_or_recovers_ends_no_run() -> None:
    with answering(*[401, 404] * 30, 200) as url:
        assert many(url).exit_code == 1, "it answered nothing"
    assert recorded() == ["model_error"] * 60
    with answering(*[401] * 19, 200, *[401] * 19, 200) as url:
        assert many(url, "--out", "b").exit_code == 0


def test_how_many_errors_end_a_run_can_be_said() -> None:
    with answering(401) as url:
        assert many(url, "--max-model-errors", "0", episodes=30).exit_code == 1
        assert len(recorded()) == 30
        assert many(url, "--max-model-errors", "2", "--out", "b").exit_code == 1
    assert len(Path("b/episodes.jsonl").read_text().splitlines()) == 2


def test_a_judge_that_is_down_ends_the_run_whose_episodes_then_need_only_be_judged() -> None:
    task = {"id": "a", "category": "crypto", "question": "What?", "tools": [], "answer": "12 USD"}
    Path("tasks.jsonl").write_text(json.dumps(task))
    how = ("--dataset", "tasks.jsonl", "--episodes", "40", "--concurrency", "2")
    tasks = (*how, "--upstream", "simulated")
    with answering(500) as url:
        done = run(*judge(url), *tasks)
    assert done.exit_code == 1
    assert f"the judge's model at {url}/v1 gave the same error 20 times in a row" in done.stderr
    played = Path("out/episodes.jsonl").read_text().splitlines()
    assert 7 <= len(played) <= 40
    assert all(json.loads(line)["ending"] == "answer" for line in played)
    scores = {**FINE, "choices": [{"index": 0, "message": {"content": '{"score": 1}'}}]}
    with json_server(lambda _: (200, scores)) as other:
        asked = (*judge(other), *tasks, "--resume", "--accept-changes")
        assert run(*asked).exit_code == 0
    whole = [json.loads(line) for line in Path("out/episodes.jsonl").read_text().splitlines()]
    assert sorted(one["judgement"]["scores"] for one in whole) == [[1.0] * 3] * 40
    kept = {json.loads(line)["started_at"] for line in played}
    assert kept <= {one["started_at"] for one in whole}, "none of these was played again"


def test_ids_of_requests_do_not_tell_errors_apart() -> None:
    streak = ErrorStreak("agent", "http://h/v1", 3)
    for one in ("req_011CQabcdef12", "req_011CQfedcba98", "0f8fad5b-d9cb-469f-a165-70867728950e"):
        assert streak.told is None
        streak.note(f"the model's endpoint answered 429: slow down (request id: {one})")
    assert streak.told is not None
    streak.note(None)
    assert streak.told is None
    for status in (401, 404, 500, 401):
        streak.note(f"the model's endpoint answered {status}")
    assert streak.told is None
