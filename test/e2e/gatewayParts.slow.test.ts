import t from 'tap'
import { openStore as openDatabase } from '../../cli/runtime/open/openStore.ts'
import { connectMcp } from '../helpers/admin-api/mcp/connectMcp.ts'
import { checkedLedger } from '../helpers/checkedLedger.ts'
import { freePort } from '../helpers/freePort.ts'
import { startApi } from './helpers/api.ts'
import { newBuyer, present } from './helpers/buyers.ts'
import { newSellerWallets, startChains } from './helpers/chains.ts'
import { runTollgate } from './helpers/child.ts'
import { writeConfig } from './helpers/config.ts'
import { openStore } from './helpers/store.ts'

// The gateway, the admin API and the background work in a process each, on one database.
const chains = await startChains(t)
const config = await writeConfig(t, chains, { sections: { log: { level: 'info', format: 'json' } } })
const wallets = newSellerWallets(chains)
const api = await startApi(t)
const adminPort = await freePort()

async function start(only: 'gateway' | 'admin' | 'jobs', others: { port?: number; workers?: number } = {}) {
  const port = only === 'admin' ? adminPort : await freePort()
  const admin = { port, url: `http://127.0.0.1:${adminPort}` }
  const { file } = await config.beside(only, (own) => ({ gateway: { ...own.gateway, ...others }, admin }))
  const child = runTollgate(t, ['start', '--config', file, '--only', only], chains.env)
  await child.waitForOutput('tollgate is running')
  const at = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`)
    return { status: response.status, text: await response.text() }
  }
  return { child, at }
}

const store = await openStore(config, chains.env, wallets)
const parts = { jobs: await start('jobs'), admin: await start('admin'), gateway: await start('gateway') }
const fleetPort = await freePort()
await start('gateway', { port: fleetPort, workers: 2 })
const url = await store.addLink({ url: `${api.url}/one`, slug: 'one', price: '0.01' })

for (const [i, chain] of chains.both.entries()) {
  t.test(
    `calls are sold on ${chain.name} by a gateway, by its workers, and by tools of the admin API`,
    async (t) => {
      const buyer = await newBuyer(chains, chain)
      const targets = Array.from({ length: 4 }, (_, n) => `${url}?on=${chain.name}&n=${n}`)
      const payments = await Promise.all(targets.map((target) => buyer.sign(target)))
      const atFleet = (target: string) => target.replace(config.url, `http://127.0.0.1:${fleetPort}`)
      const responses = await Promise.all(
        payments.map((payment, n) => present(n < 2 ? targets[n]! : atFleet(targets[n]!), payment)),
      )
      for (const { status, text } of responses) t.equal(status, 200, text)
      const { call } = await connectMcp(t, config.url)
      const query = { on: chain.name, n: 'tool' }
      const payment = await buyer.sign(`${url}?${new URLSearchParams(query)}`)
      const payload = JSON.parse(Buffer.from(payment, 'base64').toString())
      const called = await call('call_link', { link: url, query }, payload)
      t.notOk(called.isError, JSON.stringify(called.structuredContent))
      const ledger = await openDatabase(config.file, chains.env)
      t.teardown(() => ledger.close())
      t.match(await checkedLedger(ledger.purchases), { purchases: 5 * (i + 1), unresolvedPayments: 0 })
      const payTo = chain.name === 'evm' ? wallets.base : wallets.solana
      t.equal((await chain.transfersTo(payTo)).length, 5)
    },
  )
}

t.test('each answers the operator’s tools, and only the admin API the rest', async (t) => {
  for (const [name, { at }] of Object.entries(parts)) {
    t.match(await at('/readyz'), { status: 200 }, name)
    t.match(await at('/healthz'), { status: 200 }, name)
    const metrics = await at('/metrics')
    t.match(metrics, { status: 200 }, name)
    t.ok(metrics.text.includes('\ntollgate_ready{part="database",network=""} 1\n'))
    const state = name === 'jobs' ? 'ready' : 'elsewhere'
    t.match(metrics.text, new RegExp(`^tollgate_settling_key_state{.*,state="${state}"} 1$`, 'm'), name)
    t.match(await at('/docs'), { status: name === 'admin' ? 200 : 404 }, name)
  }
  const page = await fetch(`${config.url}/`, { headers: { accept: 'text/html' } })
  t.match(await page.text(), /<html/, 'pages come through the gateway')
})

t.test(
  'without the jobs a gateway is alive and not ready, and without the admin API it is alive',
  async (t) => {
    const atGateway = async (path: string) => (await fetch(`${config.url}${path}`)).status
    t.equal(await atGateway('/readyz'), 200)
    parts.jobs.child.signal('SIGTERM')
    await parts.jobs.child.exited
    t.equal(await atGateway('/healthz'), 200)
    t.equal(await atGateway('/readyz'), 503)
    t.match(await parts.gateway.at('/readyz'), {
      status: 503,
      text: /no process has the settling key.*--only jobs/,
    })
    t.match(await parts.gateway.at('/metrics'), {
      text: /^tollgate_ready\{part="settler",network="eip155:84532"\} 0$/m,
    })
    parts.admin.child.signal('SIGTERM')
    await parts.admin.child.exited
    t.equal(await atGateway('/healthz'), 200, 'a balancer need not give up what still serves links')
    t.equal(await atGateway('/docs'), 502)
  },
)

t.test('a part that is none is refused with those that there are', async (t) => {
  const { code, stderr } = await runTollgate(t, ['start', '--only', 'sales']).exited
  t.not(code, 0)
  t.match(stderr, /gateway, admin, jobs/)
})
