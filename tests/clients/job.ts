// What a program in TypeScript writes with the types of the document; `tsc --strict` has to accept all of it.
import type { components, paths } from "./api";

type JobInput = components["schemas"]["JobInput"];
type Jobs = paths["/api/v1/jobs"];
type OneJob = paths["/api/v1/jobs/{ref}"];

export const job: JobInput = { name: "report", schedule: "@hourly", command: { argv: ["true"] } };
export const body: Jobs["post"]["requestBody"]["content"]["application/json"] = job;
export const steps: JobInput = {
  name: "etl",
  schedule: { cron: "0 9 * * 1-5", timezone: "Europe/Paris" },
  tasks: [
    { name: "extract", http: { url: "https://example.com/etl", json: { full: true } }, timeout: "30s" },
    { name: "approval", wait: { signal: "approved" }, needs: ["extract"] },
  ],
  overlap: "skip",
  tags: { team: "data" },
  on_complete: { command: { argv: ["true"] } },
};
export const change: OneJob["patch"]["requestBody"]["content"]["application/merge-patch+json"] = {
  schedule: "@daily",
  description: null,
};

export function told(answer: OneJob["get"]["responses"]["200"]["content"]["application/json"]): string {
  const last = answer.last_execution;
  const reason = last === null ? undefined : last.reason?.message;
  return `${answer.name} ${answer.state} ${answer.next_run_at ?? "never"} ${reason ?? ""}`;
}

export function refused(problem: OneJob["get"]["responses"]["404"]["content"]["application/problem+json"]): string {
  return `${problem.status} ${problem.code}: ${problem.detail}`;
}

// @ts-expect-error: a job has a name
export const nameless: JobInput = { schedule: "@hourly", command: { argv: ["true"] } };
// @ts-expect-error: the name of a field is misspelt
export const misspelt: JobInput = { name: "report", schedle: "@hourly" };
// @ts-expect-error: these are not words of overlap
export const unknown: JobInput = { name: "report", overlap: "sometimes" };
