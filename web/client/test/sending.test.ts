import assert from "node:assert/strict";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";

import { address } from "../src/address.js";
import { deliver, get, outcome, type Patience } from "../src/sending.js";

type Answering = (request: IncomingMessage, response: ServerResponse, turn: number) => void;
const QUICK: Patience = { attempts: 3, first: 0.01, most: 1 };
const PROBLEM = { "content-type": "application/problem+json" };

/** A server that answers as it is told, and the bodies that it was sent. */
async function served(answer: Answering, use: (url: string) => Promise<void>): Promise<string[]> {
  const bodies: string[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (part: Buffer) => (body += part.toString()));
    request.on("end", () => answer(request, response, bodies.push(body) - 1));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  try {
    await use(`http://127.0.0.1:${port}/v1/campaigns/phones`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
  return bodies;
}

function sent(url: string, patience = QUICK): Promise<string> {
  return deliver(address(url), "the bytes", "a-token", patience).then(outcome);
}

test("a busy collector gets the same bytes again, and a token goes along", async () => {
  const bodies = await served(
    (request, response, turn) => {
      assert.equal(request.headers.authorization, "Bearer a-token");
      assert.equal(request.headers.cookie, undefined);
      if (turn < 2) response.writeHead(turn ? 503 : 429, { "retry-after": "0" }).end();
      else response.end('{"received":1,"stored":1,"failures":[]}');
    },
    async (url) => assert.equal(await sent(url), "stored"),
  );
  assert.deepEqual(bodies, ["the bytes", "the bytes", "the bytes"]);
});

test("the document is fetched whole every time: no tag is sent back, which would be a cookie", async () => {
  await served(
    ({ headers }, response) => {
      assert.deepEqual([headers["cache-control"], headers["if-none-match"]], ["no-cache", undefined]);
      response.writeHead(200, { etag: '"person 4711"', "cache-control": "max-age=9999" }).end("{}");
    },
    async (url) => {
      for (let turn = 0; turn < 2; turn++) {
        const { data } = await get(address(url), 10);
        assert.equal(new TextDecoder().decode(data), "{}");
      }
    },
  );
});

test("patience ends, and who asks for a day is not waited for", async () => {
  const busy: Answering = (_, response) => response.writeHead(503).end();
  assert.equal((await served(busy, (url) => assert.rejects(sent(url), { kind: "send" }))).length, 3);
  const late: Answering = (_, response) => response.writeHead(503, { "retry-after": "86400" }).end();
  assert.equal((await served(late, (url) => assert.rejects(sent(url), { kind: "send" }))).length, 1);
});

const ANSWERS: [string, number, Record<string, string>, string, string | null][] = [
  ["counted before", 200, {}, '{"received":1,"stored":0,"failures":[{"index":0,"type":"/problems/duplicate"}]}', "duplicate"],
  ["refused", 200, {}, '{"received":1,"stored":0,"failures":[{"index":0,"type":"/problems/superseded"}]}', "refused:superseded"],
  ["too early", 200, {}, '{"received":1,"stored":0,"failures":[{"index":0,"type":"/problems/early-period"}]}', null],
  ["about two", 200, {}, '{"received":2,"stored":2,"failures":[]}', null],
  ["no collector", 200, {}, "<html>", null],
  ["nothing", 200, {}, "null", null],
  ["a failure of nothing", 200, {}, '{"received":1,"stored":0,"failures":[null]}', null],
  ["our problem", 422, PROBLEM, '{"type":"/problems/bad-symbol","title":"t","status":422}', "refused:bad-symbol"],
  ["our problem, too large", 413, PROBLEM, '{"type":"/problems/too-large","title":"t","status":413}', "refused:too-large"],
  ["a proxy's", 413, { "content-type": "text/html" }, '{"type":"/problems/too-large","title":"t","status":413}', null],
  ["another's", 400, PROBLEM, '{"type":"https://proxy.example/problems/unreadable-body","title":"t","status":400}', null],
  ["another status", 400, PROBLEM, '{"type":"/problems/bad-symbol","title":"t","status":400}', null],
  ["a wrong token", 401, PROBLEM, '{"type":"/problems/unauthorized","title":"t","status":401}', null],
  ["a redirect", 307, { location: "/elsewhere" }, "", null],
];

for (const [name, status, headers, body, expected] of ANSWERS) {
  test(`an answer: ${name}`, async () => {
    const answer: Answering = (_, response) => response.writeHead(status, headers).end(body);
    const bodies = await served(answer, async (url) => {
      if (expected) assert.equal(await sent(url), expected);
      else await assert.rejects(sent(url), { kind: "send" });
    });
    assert.equal(bodies.length, 1);
  });
}

test("nobody there: the error repeats no body and no token", async () => {
  let gone = "";
  await served(() => undefined, async (url) => void (gone = url));
  await assert.rejects(sent(gone), (problem: Error) => !/token|bytes/.test(problem.message));
});

test("an answer that is too long is not read to its end", async () => {
  const long: Answering = (_, response) => response.end("x".repeat(100_000));
  await served(long, (url) => assert.rejects(get(address(url), 50_000), { kind: "send" }));
});

test("an address is a campaign's, and plain HTTP stays on this machine", () => {
  assert.deepEqual(address("https://Collector.example/v1/campaigns/phones/"), {
    url: "https://collector.example/v1/campaigns/phones",
    origin: "https://collector.example:443",
    name: "phones",
  });
  assert.equal(address("http://[::1]:81/x").origin, "http://[::1]:81");
  assert.equal(address("http://plain.example/x", true).origin, "http://plain.example:80");
  const bad = ["http://plain.example/x", "ftp://a/x", "https://me@a/x", "https://a/x?y", "https://a/#", "/x", "https://ä/x"];
  for (const text of bad) assert.throws(() => address(text), { kind: "parameter" });
});
