import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import t, { type Test } from 'tap'
import { createVaultBox, type VaultBox } from '../../test/helpers/cli/vault/vaultProcess.ts'
import { initialize } from '../../test/helpers/vault/mcp/startMcp.ts'
import { until } from '../../test/helpers/vault/mcp/until.ts'
import { usdcTransfer } from '../../test/helpers/vault/transfers.ts'

const main = fileURLToPath(new URL('../../cli/main.ts', import.meta.url))

async function start(t: Test, scopes = 'wallet.base,custom.*'): Promise<VaultBox> {
  const box = createVaultBox(t)
  await box.json(['init', ...box.withPassword])
  await box.json(['agents', 'add', 'desk', '--scopes', scopes, ...box.withPassword])
  return box
}

const argsOf = (box: VaultBox, who: readonly string[] = ['--agent', 'desk']) => [
  main,
  'vault',
  '--home',
  box.home,
  ...box.withPassword,
  '--mode',
  'stdio',
  ...who,
]

/** Every open approval, as the owner sees it; without any, no line. */
async function pending(box: VaultBox): Promise<readonly string[]> {
  const { stdout } = await box.run(['approvals', '--json'])
  return stdout.split('\n').filter((line) => line !== '')
}

/** The SDK's own client, which starts the vault the way desktop programs do. */
async function connect(t: Test, box: VaultBox) {
  const client = new Client({ name: 'desk', version: '1.0.0' })
  const transport = new StdioClientTransport({ command: process.execPath, args: argsOf(box), stderr: 'pipe' })
  // A line on standard output that is not the protocol's arrives here.
  client.onerror = (error) => t.fail(error.message)
  await client.connect(transport)
  t.teardown(() => client.close())
  await client.listTools()
  return {
    client,
    // biome-ignore lint/suspicious/noExplicitAny: tests look into results of every shape
    call: async (name: string, args: object): Promise<any> =>
      (await client.callTool({ name, arguments: { ...args } }, undefined, { timeout: 600_000 }))
        .structuredContent,
  }
}

t.test('one agent over stdio, while its owner decides through the socket', async (t) => {
  const box = await start(t)
  const { client, call } = await connect(t, box)
  t.equal((await client.listTools()).tools.length, 14)
  t.match(await call('vault_get_address', { chain: 'base' }), { address: /^0x/, chain: 'base' })
  t.match((await call('vault_read', { scope: 'identity.name' })).error, { code: 'SCOPE_DENIED' })

  const claim = { chain: 'base', amount: 2, currency: 'USDC', unsigned_tx: usdcTransfer('2') }
  const pendingApproval = await call('vault_sign_tx', { ...claim, wait_seconds: 0 })
  t.equal(pendingApproval.status, 'pending')
  t.equal((await box.json(['status'])).locked, false, 'the owner speaks to the running vault')
  t.match(await box.run(['approve', pendingApproval.approval_id]), { status: 2, stderr: /--hash/ })
  const { decision_hash } = await box.json(['approvals', pendingApproval.approval_id])
  await box.json(['approve', pendingApproval.approval_id, '--hash', decision_hash])
  t.match(await call('vault_sign_tx', claim), { signed_tx: /^0x02/ })
  t.match(await box.run(['open']), { status: 1, stderr: /has no page/ })

  const waiting = call('vault_write', { scope: 'custom.note', value: 'a', wait_seconds: 120 })
  await until(async () => (await pending(box)).length === 1)
  await box.json(['agents', 'revoke', 'desk'])
  t.match((await waiting).error, { code: 'APPROVAL_RESOLVED' }, 'nothing is done for a revoked agent')
  t.match((await call('vault_get_address', { chain: 'base' })).error, { code: 'UNAUTHORIZED' })
})

t.test('what came before the input ended is answered, and the folder is free again', async (t) => {
  const box = await start(t)
  const child = spawn(process.execPath, argsOf(box), { stdio: 'pipe' })
  t.teardown(() => child.kill('SIGKILL'))
  const lines = [
    initialize('2024-11-05'),
    { jsonrpc: '2.0', method: 'notifications/initialized' },
    { jsonrpc: '2.0', id: 2, method: 'tools/list' },
    {
      jsonrpc: '2.0',
      id: 3,
      method: 'tools/call',
      params: { name: 'vault_write', arguments: { scope: 'custom.note', value: 'a', wait_seconds: 120 } },
    },
  ]
  child.stdin.end(`${lines.map((line) => JSON.stringify(line)).join('\n')}\nnot a message\n`)
  const gone = once(child, 'exit')
  const responses = (await text(child.stdout))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
    .filter(({ id }) => id !== null)
  t.match(
    responses.map(({ id }) => id),
    [1, 2, 3],
  )
  t.match(responses[0].result.protocolVersion, '2024-11-05')
  t.match(responses[2].result.structuredContent, { status: 'pending' }, 'nobody waited for the owner')
  t.strictSame(await gone, [0, null])
  t.equal((await box.json(['status', ...box.withPassword])).locked, false)
})

t.test('a line that is no message the vault takes is answered, and the session goes on', async (t) => {
  const box = await start(t, 'auto:write:custom.*,custom.*')
  const child = spawn(process.execPath, argsOf(box), { stdio: 'pipe' })
  t.teardown(() => child.kill('SIGKILL'))
  const write = (id: number, value: string) =>
    JSON.stringify({
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: { name: 'vault_write', arguments: { scope: 'custom.note', value } },
    })
  const lines = [
    JSON.stringify(initialize('2025-06-18')),
    '{"jsonrpc":"2.0","method":"notifications/initialized"}',
    write(2, 'x'.repeat(300_000)),
    write(3, 'x'.repeat(2_000_000)),
    write(4, 'x'.repeat(5_000_000)),
    Buffer.from(write(5, 'caf\u00e9'), 'latin1'),
    write(6, 'a').replace('"value"', '"value":"b","value"'),
    'not a message',
    '\r',
    write(7, 'caf\u00e9'),
  ]
  child.stdin.end(Buffer.concat(lines.flatMap((line) => [Buffer.from(line as string), Buffer.from('\n')])))
  const responses = new Map(
    (await text(child.stdout))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
      .map((response, i) => [response.id ?? `null ${i}`, response] as const),
  )
  for (const id of [2, 3])
    t.match(responses.get(id), { error: { code: -32_600, data: { code: 'PAYLOAD_TOO_LARGE' } } })
  t.match(responses.get(5), { error: { code: -32_700, message: /UTF-8/ } })
  t.match(responses.get(6), { error: { code: -32_700, message: /once/ } })
  t.match(
    responses.get(7)?.result.structuredContent,
    { scope: 'custom.note', version: 1 },
    'nothing before it',
  )
  const nameless = [...responses].filter(([id]) => typeof id === 'string').map(([, { error }]) => error.code)
  t.strictSame(nameless, [-32_600, -32_700], 'of what is longer than 4 MiB or no JSON, no id is known')
})

t.test('without a name it is the only agent there is, or that of a test suite', async (t) => {
  const box = await start(t)
  const scopesAs = async (who: readonly string[]) => {
    const child = spawn(process.execPath, argsOf(box, who), { stdio: 'pipe' })
    t.teardown(() => child.kill('SIGKILL'))
    const call = { name: 'vault_list_scopes', arguments: {} }
    const lines = [
      initialize('2024-11-05'),
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      { jsonrpc: '2.0', id: 2, method: 'tools/call', params: call },
    ]
    child.stdin.end(`${lines.map((line) => JSON.stringify(line)).join('\n')}\n`)
    const gone = once(child, 'exit')
    const [, response] = (await text(child.stdout)).trim().split('\n')
    await gone
    return JSON.parse(response!).result.structuredContent.scopes.map(({ scope }: { scope: string }) => scope)
  }
  t.strictSame(new Set(await scopesAs([])), new Set(['wallet.base', 'custom.*']))
  t.ok((await scopesAs(['--insecure-no-token'])).includes('identity.*'))
})
