import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { createVaultBox } from '../../cli/vault/testing/vaultProcess.ts'
import { initialize } from './testing/startMcp.ts'

const suite = fileURLToPath(
  new URL('../../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url),
)
const scenarios = [
  'server-initialize',
  'ping',
  'tools-list',
  'server-sse-multiple-streams',
  'dns-rebinding-protection',
]

interface Check {
  readonly id: string
  readonly status: 'SUCCESS' | 'FAILURE' | 'WARNING' | 'INFO' | 'SKIPPED'
  readonly errorMessage?: string
}

/** Runs one scenario of the protocol's own suite and gives its checks and its exit status. */
async function judge(url: string, scenario: string): Promise<{ status: unknown; checks: readonly Check[] }> {
  const folder = mkdtempSync(join(tmpdir(), 'mcp-'))
  try {
    const args = [suite, 'server', '--url', url, '--scenario', scenario, '-o', folder]
    const status = await new Promise((resolve) =>
      execFile(process.execPath, args, (error) => resolve(error === null ? 0 : error.code)),
    )
    const [results] = readdirSync(folder)
    const checks = results === undefined ? '[]' : readFileSync(join(folder, results, 'checks.json'), 'utf8')
    return { status, checks: JSON.parse(checks) }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

t.test('a running vault passes the conformance suite of the protocol', async (t) => {
  const box = createVaultBox(t)
  await box.json(['init', ...box.withPassword])
  const { url } = await box.serve(['--mode', 'http-mcp', '--insecure-no-token'])
  for (const scenario of scenarios) {
    const { status, checks } = await judge(`${url}/mcp`, scenario)
    t.ok(checks.length > 0, `${scenario} looked at something`)
    t.strictSame(
      checks.filter((check) => check.status !== 'SUCCESS'),
      [],
      scenario,
    )
    t.equal(status, 0, scenario)
  }

  // Later versions of the suite have this as server-session-lifecycle; the one that is used here does not.
  const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' }
  const send = (method: string, body?: object, more: object = {}) =>
    fetch(`${url}/mcp`, {
      method,
      headers: { ...headers, ...more },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
  const begun = await send('POST', initialize('2025-11-25'))
  const session = {
    'mcp-session-id': begun.headers.get('mcp-session-id')!,
    'mcp-protocol-version': '2025-11-25',
  }
  const noted = await send('POST', { jsonrpc: '2.0', method: 'notifications/initialized' }, session)
  t.equal(noted.status, 202)
  t.equal((await send('DELETE', undefined, session)).status, 200)
  const after = await send('POST', { jsonrpc: '2.0', id: 2, method: 'tools/list' }, session)
  t.equal(after.status, 404)
})

t.test('without --mode http-mcp there is no /mcp', async (t) => {
  const box = createVaultBox(t)
  await box.json(['init', ...box.withPassword])
  const { url } = await box.serve(['--insecure-no-token'])
  const answer = await fetch(`${url}/mcp`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify(initialize()),
  })
  t.equal(answer.status, 404)
})
