import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { call } from '../../test/helpers/vault/remote/call.ts'
import { offerFor, vaultFor } from '../../test/helpers/vault/remote/world.ts'

const program = `
  import { Command } from 'commander'
  import { registerProxy } from './cli/commands/proxy.ts'
  import { registerRelay } from './cli/commands/relay.ts'
  const program = new Command('tollgate')
  registerProxy(program)
  registerRelay(program)
  await program.parseAsync(['node', 'tollgate', ...process.argv.slice(1)])`

function run(t: Test, ...args: string[]): ChildProcess {
  const child = spawn(process.execPath, ['--input-type=module', '-e', program, '--', ...args], {
    cwd: `${import.meta.dirname}/../..`,
  })
  t.teardown(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  })
  return child
}

async function lineOf(
  child: ChildProcess,
  stream: 'stdout' | 'stderr',
  has: string,
): Promise<Record<string, string>> {
  for await (const line of createInterface({ input: child[stream]! }))
    if (line.includes(has)) return JSON.parse(line)
  throw new Error(`the process ended without saying ${has}`)
}

t.test(
  'the document’s command pairs and serves; the token can come from a file or standard input',
  async (t) => {
    const relay = run(t, 'relay', '--port', '0')
    const { url } = await lineOf(relay, 'stderr', 'the relay is running')
    const vault = await vaultFor(t, { url: url! })
    for (const way of ['argument', 'file', 'stdin'] as const) {
      const offer = await offerFor(vault, `bot-${way}`)
      const words = offer.command.replace('--port 8421', '--port 0').split(' ').slice(1)
      const home = t.testdir({})
      const file = `${home}.token`
      writeFileSync(file, `${offer.token}\n`)
      const at = words.indexOf('--pair')
      if (way === 'file') words.splice(at, 2, '--pair-file', file)
      if (way === 'stdin') words[at + 1] = '-'
      const proxy = run(t, ...words, '--home', home)
      if (way === 'stdin') proxy.stdin!.end(`${offer.token}\n`)
      const lines: Record<string, string>[] = []
      for await (const line of createInterface({ input: proxy.stdout! })) {
        lines.push(JSON.parse(line))
        if (line.includes('url')) break
      }
      t.equal(lines[0]!['phrase'], vault.questions.at(-1)!.phrase, way)
      t.equal((await call(lines[1]!['url']!, '/address/solana')).status, 200)
      if (process.platform === 'linux')
        t.notOk(
          readFileSync(`/proc/${proxy.pid}/cmdline`, 'utf8').includes(offer.token),
          'not among its arguments',
        )
      proxy.kill('SIGTERM')
      t.strictSame(await once(proxy, 'exit'), [0, null])
    }
    relay.kill('SIGTERM')
    t.strictSame(await once(relay, 'exit'), [0, null])
  },
)

t.test('what can not work is said before anything is done', async (t) => {
  const values = ['--service-id', 'x', '--vault', 'v', '--hpke-key', Buffer.alloc(32).toString('base64')]
  const refused: [string[], RegExp, number][] = [
    [['proxy', ...values], /required option '--relay/, 1],
    [['proxy', ...values, '--relay', 'wss://r.example', '--port', 'x'], /Expected a port/, 2],
    [['proxy', ...values, '--relay', 'wss://r.example', '--pair', 'a', '--pair-file', 'b'], /not both/, 2],
    [['proxy', ...values, '--relay', 'wss://r.example', '--home', t.testdir({})], /expected --pair/, 1],
    [['proxy', ...values, '--relay', 'ws://r.example'], /expected wss:/, 1],
    [['relay', '--port', '0', '--tls-key', 'key.pem'], /--tls-cert and --tls-key together/, 2],
  ]
  for (const [args, why, code] of refused) {
    const child = run(t, ...args)
    const [lines, [status]] = await Promise.all([text(child.stderr!), once(child, 'exit')])
    t.match(lines, why)
    t.equal(status, code)
  }
})
