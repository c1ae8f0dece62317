import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'

const suite = fileURLToPath(
  new URL('../../node_modules/@modelcontextprotocol/conformance/dist/index.js', import.meta.url),
)

/** Those that need no tools, prompts or resources of the suite's own. */
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

/** Holds an MCP server to the protocol's own conformance suite. @param url such as `http://127.0.0.1:8080/mcp` */
export async function passesConformance(t: Test, url: string): Promise<void> {
  for (const scenario of scenarios) {
    const { status, checks } = await judge(url, scenario)
    t.ok(checks.length > 0, `${scenario} looked at something`)
    t.strictSame(
      checks.filter((check) => check.status !== 'SUCCESS'),
      [],
      scenario,
    )
    t.equal(status, 0, scenario)
  }
}
