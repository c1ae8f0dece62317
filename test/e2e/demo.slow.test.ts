import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { runTollgate } from './helpers/child.ts'
import { eventually } from './helpers/eventually.ts'

t.test(
  'the demo pays a link once on each chain, says so in one JSON object a line, and ends well',
  async (t) => {
    const { code, stdout, stderr } = await runTollgate(t, ['demo', '--once']).exited
    t.equal(code, 0, stderr)
    t.match(stderr, /the vault needs its owner's approval: .*Send 0\.25 USDC/)
    t.match(stderr, 'the demo acts as the owner')
    t.equal(stderr.match(/Paid, and the chain confirms the payment\./g)?.length, 2, 'the vault paid twice')
    const lines = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    t.strictSame(
      lines.map(({ network }) => network),
      ['eip155:84532', 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'],
    )
    for (const line of lines) {
      t.strictSame(Object.keys(line).sort(), [
        'amountAtomic',
        'network',
        'purchaseId',
        'replay',
        'sellerAfterAtomic',
        'sellerBeforeAtomic',
        'status',
        'transaction',
      ])
      t.match(line, { status: 200, purchaseId: /^[0-9a-f-]{36}$/, amountAtomic: '10000' })
      t.match(
        line.transaction,
        line.network.startsWith('eip155') ? /^0x[0-9a-f]{64}$/ : /^[1-9A-HJ-NP-Za-km-z]{80,90}$/,
      )
      t.equal(BigInt(line.sellerAfterAtomic) - BigInt(line.sellerBeforeAtomic), BigInt(line.amountAtomic))
      t.strictSame(line.replay, { status: 409, code: 'payment_already_used' })
    }
  },
)

t.test("a shell that reads the demo's file sells an API and buys a call of it", async (t) => {
  const file = join(t.testdir(), 'demo.env')
  const demo = runTollgate(t, ['demo', '--port', '0', '--write-env', file])
  await demo.waitForOutput('Everything is running')
  t.equal((await stat(file)).mode & 0o777, 0o600)
  const text = await readFile(file, 'utf8')
  const env = Object.fromEntries(
    [...text.matchAll(/^export (\w+)='([^']+)'$/gm)].map(([, name, value]) => [name!, value!]),
  )
  t.strictSame(Object.keys(env), ['TOLLGATE_URL', 'TOLLGATE_API_KEY', 'TOLLGATE_EVM_KEY', 'TOLLGATE_RPC_URL'])
  const [, sample] = /sample API +(http:\S+)/.exec(demo.stderr())!
  const add = ['link', 'add', `${sample}/mine`, '--price', '0.02', '--slug', 'mine']
  const added = await runTollgate(t, [...add, '--gateway', env['TOLLGATE_URL']!], env).exited
  t.equal(added.code, 0, added.stderr)
  const { fullUrl } = JSON.parse(added.stdout)
  const paid = await runTollgate(t, ['pay', fullUrl], { ...env, HOME: t.testdirName }).exited
  t.equal(paid.code, 0, paid.stderr)
  demo.signal('SIGTERM')
  t.equal((await demo.exited).code, 0)
  t.rejects(stat(file), { code: 'ENOENT' }, 'the keys in it are worth nothing any more')
})

t.test('without --once the demo waits for a person to answer its vault', async (t) => {
  const demo = runTollgate(t, ['demo', '--port', '0'])
  await demo.waitForOutput('tollgate vault approve apr_')
  await demo.waitForOutput('or in a browser')
  const [, id, home] = /vault approve (apr_\S+) --home (\S+)/.exec(demo.stderr())!
  const shown = await runTollgate(t, ['vault', 'approvals', id!, '--home', home!]).exited
  const { decision_hash: hash } = JSON.parse(shown.stdout)
  const approved = await runTollgate(t, ['vault', 'approve', id!, '--hash', hash, '--home', home!]).exited
  t.equal(approved.code, 0, approved.stderr)
  await eventually(
    async () => demo.stderr().match(/Paid, and the chain confirms the payment\./g)?.length === 2 || undefined,
  )
  const status = await runTollgate(t, ['vault', 'status', '--home', home!]).exited
  const { idle_locks_at: idle } = JSON.parse(status.stdout)
  t.ok(Date.parse(idle) - Date.now() > 6 * 86_400_000, `an idle demo's vault stays open: ${idle}`)
  const [, passwordFile] = /vault's password, in case you lock it: (\S+)/.exec(demo.stderr())!
  t.match(await readFile(passwordFile!, 'utf8'), /^\S{20,}\n$/)
  demo.signal('SIGTERM')
  t.equal((await demo.exited).code, 0)
})

t.test(
  "while nobody pays, the local EVM chain's clock goes on, or payments would lie in its future",
  async (t) => {
    const demo = runTollgate(t, ['demo', '--port', '0'])
    await demo.waitForOutput('or in a browser')
    const [, rpc] = /EVM node +(http:\S+)/.exec(demo.stderr())!
    const newest = async (): Promise<{ number: string; timestamp: string }> => {
      const body = JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'eth_getBlockByNumber',
        params: ['latest', false],
      })
      const response = await fetch(rpc!, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body,
      })
      return ((await response.json()) as { result: { number: string; timestamp: string } }).result
    }
    const before = await newest()
    const after = await eventually(async () => {
      const block = await newest()
      return Number(block.number) >= Number(before.number) + 3 ? block : undefined
    })
    t.ok(Number(after.timestamp) > Number(before.timestamp))
    t.ok(Math.abs(Number(after.timestamp) - Date.now() / 1000) < 30, 'it is the time of this machine')
    demo.signal('SIGTERM')
    t.equal((await demo.exited).code, 0)
  },
)

interface Found {
  readonly seller: { readonly username: string }
  readonly stats: { readonly reviews: number; readonly buyers: number }
}

/** Processes whose environment has this mark; only Linux says. */
async function marked(mark: string): Promise<string[]> {
  const found = []
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid)) continue
    const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')
    if (environment.includes(`DEMO_MARK=${mark}\0`)) {
      found.push((await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).replaceAll('\0', ' '))
    }
  }
  return found
}

t.test('into a pipe it says where everything is, and when it is killed nothing of it stays', async (t) => {
  const mark = `${process.pid}-${Date.now()}`
  const demo = runTollgate(t, ['demo', '--port', '0'], { DEMO_MARK: mark })
  await demo.waitForOutput('or in a browser')
  t.match(demo.stderr(), /gateway +http:\/\/127\.0\.0\.1:\d+\n/)
  t.match(demo.stderr(), /paid link +http:\/\/[^/\s]+:\d+\/api\/link\//)
  for (const line of demo.stdout().trimEnd().split('\n')) t.ok(JSON.parse(line))
  for (const name of ['marketplace', 'store', 'checkout', 'dashboard', 'operator']) {
    const [, url] = new RegExp(`${name} +(http://\\S+)`).exec(demo.stderr())!
    const page = await fetch(url!)
    t.match([page.status, page.headers.get('content-type')], [200, 'text/html; charset=utf-8'], name)
  }
  const [, gateway] = /gateway +(http:\/\/\S+)/.exec(demo.stderr())!
  const { results } = (await (await fetch(`${gateway}/api/discover?limit=100`)).json()) as {
    results: Found[]
  }
  t.ok(new Set(results.map(({ seller }) => seller.username)).size >= 3, 'several stores sell')
  t.ok(results.some(({ stats }) => stats.reviews > 1 && stats.buyers > 1))
  const before = await marked(mark)
  t.ok(
    before.some((line) => line.includes('anvil ')) && before.some((line) => line.includes(' vault ')),
    before.join(),
  )
  demo.signal('SIGKILL')
  t.equal((await demo.exited).signal, 'SIGKILL')
  await eventually(async () => (await marked(mark)).length === 0 || undefined)
})
