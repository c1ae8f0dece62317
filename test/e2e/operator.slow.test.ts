import t from 'tap'
import { answerWell, startApi } from './helpers/api.ts'
import { newBuyer, read } from './helpers/buyers.ts'
import { newSellerWallets, startChains } from './helpers/chains.ts'
import { runTollgate } from './helpers/child.ts'
import { writeConfig } from './helpers/config.ts'
import { eventually } from './helpers/eventually.ts'

const chains = await startChains(t)
const api = await startApi(t)
const log = { level: 'info', format: 'json' }
const config = await writeConfig(t, chains, { sections: { log } })
const wallets = newSellerWallets(chains)
const rest = ['replay-guard', 'upstream', 'purchase-record'].map((use) => ({ use }))

/** Runs a command to its end. @returns the JSON lines on its output. */
async function tollgate(args: readonly string[], env: Record<string, string> = {}) {
  const { code, stdout, stderr } = await runTollgate(t, args, { ...chains.env, ...env }).exited
  return {
    code,
    stderr,
    lines: stdout.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)])),
  }
}

t.test('a key that is missing in the environment stops the start, by its name', async (t) => {
  const { code, stderr } = await runTollgate(t, ['start', '--config', config.file]).exited
  t.not(code, 0)
  t.match(stderr, /TOLLGATE_FACILITATOR_EVM_KEY/)
})

t.test(
  'an operator starts, opens a store, adds a link and sells, by configuration and commands alone',
  async (t) => {
    const gateway = runTollgate(t, ['start', '--config', config.file], chains.env)
    await gateway.waitForOutput('Migrated the database')
    gateway.signal('SIGHUP')
    await gateway.waitForOutput('tollgate is running')
    await gateway.waitForOutput('configuration reloaded')
    const store = await tollgate([
      ...['store', 'create', 'bob', '--config', config.file],
      ...['--base', wallets.base, '--solana', wallets.solana],
    ])
    t.equal(store.code, 0, store.stderr)
    const { apiKey } = store.lines[0]
    const link = await tollgate(
      ['link', 'add', `${api.url}/sold`, '--price', '0.02', '--slug', 'sold', '--gateway', config.url],
      { TOLLGATE_API_KEY: apiKey },
    )
    t.equal(link.code, 0, link.stderr)
    const url: string = link.lines[0].fullUrl
    t.equal(url, `${config.url}/api/link/bob/sold`)

    const buyers = await Promise.all(chains.both.map((chain) => newBuyer(chains, chain)))
    for (const buyer of buyers) {
      const bought = await read(await buyer.fetchV2(`${url}?n=${buyer.chain.name}`))
      t.equal(bought.status, 200, bought.text)
      const payTo = buyer.chain.name === 'evm' ? wallets.base : wallets.solana
      t.equal(await buyer.chain.balance(payTo), 20_000n)
    }

    await t.test(
      'a configuration that does not hold is refused on SIGHUP and the old one goes on',
      async (t) => {
        config.rewrite({ log, nonsense: true })
        gateway.signal('SIGHUP')
        await gateway.waitForOutput('the new configuration is invalid')
        t.equal((await fetch(`${url}?n=unpaid`)).status, 402)
      },
    )

    await t.test('on SIGHUP the plugins are read again, and calls go on meanwhile', async (t) => {
      const release = Promise.withResolvers<void>()
      api.answerWith((request, response) => void release.promise.then(() => answerWell(request, response)))
      const called = new Promise<void>((resolve) => api.onCall(() => resolve()))
      const paying = buyers[0]!.fetchV2(`${url}?n=reload`)
      await called
      config.rewrite({ log, plugins: [{ use: 'x402', with: { maxTimeoutSeconds: 120 } }, ...rest] })
      gateway.signal('SIGHUP')
      await gateway.waitForOutput('configuration reloaded', 2)
      const offer = (await (await fetch(`${url}?n=unpaid`)).json()) as { accepts: object[] }
      t.match(offer.accepts[0], { maxTimeoutSeconds: 120 })
      release.resolve()
      const bought = await read(await paying)
      t.equal(bought.status, 200, bought.text)
      api.answerWith(answerWell)
    })

    await t.test(
      'on SIGTERM a call that has begun is answered and paid, then the process ends',
      async (t) => {
        const release = Promise.withResolvers<void>()
        api.answerWith((request, response) => void release.promise.then(() => answerWell(request, response)))
        const called = new Promise<void>((resolve) => api.onCall(() => resolve()))
        const paying = buyers[0]!.fetchV2(`${url}?n=drain`)
        await called
        gateway.signal('SIGTERM')
        await gateway.waitForOutput('stopping')
        await eventually(async () => {
          const refused = await fetch(url).then(
            () => undefined,
            () => true as const,
          )
          return refused
        })
        release.resolve()
        const bought = await read(await paying)
        t.equal(bought.status, 200, bought.text)
        const { code, signal } = await gateway.exited
        t.strictSame({ code, signal }, { code: 0, signal: null })
      },
    )

    await t.test('tollgate doctor holds the books against the chains', async (t) => {
      const { code, lines, stderr } = await tollgate(['doctor', '--json', '--config', config.file])
      t.equal(code, 0, stderr)
      t.ok(lines.length > 4)
      t.ok(lines.every(({ ok }) => ok === true))
      t.match(
        lines.find(({ subject }) => subject === 'transfers'),
        { message: '4 transfers are on chain' },
      )
    })
  },
)
