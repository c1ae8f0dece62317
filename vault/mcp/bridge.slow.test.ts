import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import t, { type Test } from 'tap'
import { createVaultBox } from '../../test/helpers/cli/vault/vaultProcess.ts'
import { freePort } from '../../test/helpers/freePort.ts'
import { initialize } from '../../test/helpers/vault/mcp/startMcp.ts'
import { until } from '../../test/helpers/vault/mcp/until.ts'

const main = fileURLToPath(new URL('../../cli/main.ts', import.meta.url))

async function connect(t: Test, port: number, tokenFile: string) {
  const client = new Client({ name: 'desk', version: '1.0.0' })
  const args = [main, 'vault', 'mcp', '--url', `http://127.0.0.1:${port}/mcp`, '--token-file', tokenFile]
  const transport = new StdioClientTransport({ command: process.execPath, args, stderr: 'pipe' })
  client.onerror = (error) => t.fail(error.message)
  await client.connect(transport)
  t.teardown(() => client.close())
  return {
    client,
    // biome-ignore lint/suspicious/noExplicitAny: tests look into results of every shape
    call: async (name: string, args: object = {}): Promise<any> =>
      (await client.callTool({ name, arguments: { ...args } })).structuredContent,
  }
}

t.test('a client that starts its servers reaches a running vault with a token and no password', async (t) => {
  const box = createVaultBox(t)
  const port = await freePort()
  await box.json(['init', ...box.withPassword])
  const tokenFile = join(box.home, '..', 'token')
  await box.json([
    'agents',
    'add',
    'desk',
    '--scopes',
    'wallet.base',
    '--token-file',
    tokenFile,
    ...box.withPassword,
  ])
  const served = ['--mode', 'http-mcp', '--port', String(port)]
  const first = await box.serve(served)
  const { client, call } = await connect(t, port, tokenFile)
  t.equal((await client.listTools()).tools.length, 14)
  t.match(await call('vault_get_address', { chain: 'base' }), { address: /^0x/ })

  await box.json(['lock'])
  t.match((await call('vault_get_address', { chain: 'base' })).error, { code: 'VAULT_LOCKED' })

  await first.stop()
  await t.rejects(call('vault_list_scopes'), {
    message: /No vault responds at http.*Start a vault with tollgate vault/,
  })
  const second = await box.serve(served)
  t.match(await call('vault_get_address', { chain: 'base' }), { address: /^0x/ }, 'another session was begun')

  const waiting = call('vault_sign_message', { chain: 'base', message: 'hi', wait_seconds: 100 })
  const notified = t.rejects(waiting, {
    message: /The action may have been performed, so check vault_activity/,
  })
  await until(async () => (await box.run(['approvals', '--json'])).stdout.includes('apr_'))
  await second.kill()
  await notified
  await box.serve(served)
  t.match(await call('vault_list_scopes'), { scopes: Array }, 'and it goes on')

  await box.json(['agents', 'revoke', 'desk'])
  await t.rejects(call('vault_list_scopes'), { message: /missing, unknown or revoked/ })
})

t.test('what came before the input ended is answered, and a wrong token says so', async (t) => {
  const box = createVaultBox(t)
  const port = await freePort()
  await box.json(['init', ...box.withPassword])
  const { token } = await box.json(['agents', 'add', 'desk', '--scopes', 'wallet.base', ...box.withPassword])
  await box.serve(['--mode', 'http-mcp', '--port', String(port)])
  const run = async (env: Record<string, string>) => {
    const args = [main, 'vault', 'mcp', '--url', `http://127.0.0.1:${port}/mcp`]
    const child = spawn(process.execPath, args, { env: { PATH: process.env['PATH'], ...env }, stdio: 'pipe' })
    t.teardown(() => child.kill('SIGKILL'))
    const lines = [
      initialize('2024-11-05'),
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      { jsonrpc: '2.0', id: 2, method: 'tools/list' },
    ]
    const latin1 = '{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"caf\u00e9"}}\n'
    child.stdin.write(lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
    child.stdin.end(Buffer.from(latin1, 'latin1'))
    const [stdout, stderr, [status]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'exit'),
    ])
    const responses = stdout.split('\n').filter((line) => line !== '')
    const all = responses.map((line) => JSON.parse(line))
    return {
      status,
      stderr,
      responses: all.filter(({ id }) => id !== 3),
      refused: all.find(({ id }) => id === 3),
    }
  }
  const good = await run({ TOLLGATE_VAULT_TOKEN: token })
  t.equal(good.status, 0)
  t.match(good.responses, [
    { id: 1, result: { protocolVersion: '2024-11-05' } },
    { id: 2, result: { tools: Array } },
  ])
  t.match(good.refused, { error: { code: -32_700, message: /UTF-8/ } })
  const wrong = await run({ TOLLGATE_VAULT_TOKEN: `${token.slice(0, -4)}AAAA` })
  t.match(wrong.responses[0], { id: 1, error: { message: /missing, unknown or revoked/ } })
  t.match(await run({}), { status: 2, stderr: /--token-file or TOLLGATE_VAULT_TOKEN/ })
  const empty = join(box.home, '..', 'empty')
  writeFileSync(empty, '')
  t.match(await box.run(['mcp', '--token-file', empty]), { status: 2, stderr: /it is empty/ })
})
