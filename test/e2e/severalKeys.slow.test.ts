import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { openStore as openDatabase } from '../../cli/runtime/open/openStore.ts'
import { checkedLedger } from '../helpers/checkedLedger.ts'
import { startApi } from './helpers/api.ts'
import { type Bought, newBuyer, present } from './helpers/buyers.ts'
import { newSellerWallets, startChains } from './helpers/chains.ts'
import { runTollgate, startGateway } from './helpers/child.ts'
import { writeConfig } from './helpers/config.ts'
import { eventually } from './helpers/eventually.ts'
import { openStore } from './helpers/store.ts'

// Two `tollgate start` on one database with three keys, and a node 40 ms away. The process that holds the keys is killed.
const AT_ONCE = 20
const PATIENCE_MS = 60_000

const chains = await startChains(t)
const [chain] = chains.both
const keys = Array.from({ length: 3 }, generatePrivateKey)
for (const key of keys) await chains.evm.fundEth(privateKeyToAddress(key), 10n ** 18n)
const env = { ...chains.env, KEY_ONE: keys[0]!, KEY_TWO: keys[1]!, KEY_THREE: keys[2]! }
const names = ['${KEY_ONE}', '${KEY_TWO}', '${KEY_THREE}']
const facilitator = { privateKeys: names, maxPaymentsPerTransaction: 1 }
const config = await writeConfig(t, chains, {
  evm: { facilitator },
  sections: { log: { level: 'info', format: 'json' } },
})
const second = await config.beside('second')
const wallets = newSellerWallets(chains)
const api = await startApi(t)
const store = await openStore(config, env, wallets)
const children = [await startGateway(t, config, env), await startGateway(t, second, env)] as const
const notified = 'another process of this installation settles with this key'
const asker = await Promise.race(children.map((child, i) => child.waitForOutput(notified).then(() => i)))
const holder = 1 - asker
const urls = [config.url, second.url]
const link = await store.addLink({ url: api.url, slug: 'keys', price: '0.01' })
const at = (which: number, n: string) => `${link.replace(config.url, urls[which]!)}?n=${n}`
const books = await openDatabase(config.file, env)
t.teardown(() => books.close())
const buyer = await newBuyer(chains, chain)

/** Comes back with the same payment until it is served, as a buyer's client does. */
const bought = (target: string, payment: string) =>
  eventually(async (): Promise<Bought | undefined> => {
    const response = await present(target, payment).catch((): undefined => undefined)
    if (response?.status === 200) return response
    await sleep(200)
    return undefined
  }, PATIENCE_MS)

async function holdTogether(count: number): Promise<void> {
  const ledger = await eventually(async () => {
    const now = await checkedLedger(books.purchases)
    return now.unresolvedPayments === 0 && now.transactions.length >= count ? now : undefined
  }, PATIENCE_MS)
  t.match(ledger, { broken: { length: 0 }, unbalanced: { length: 0 } })
  const booked = ledger.transactions.map(({ transaction }) => transaction).sort()
  t.strictSame((await chain.transfersTo(wallets.base)).sort(), booked, 'what is on chain is in the books')
  t.equal(booked.length, count)
}

const used = async (): Promise<number[]> => {
  const asked = keys.map((key) =>
    chains.evm.rpc<string>('eth_getTransactionCount', privateKeyToAddress(key), 'latest'),
  )
  return (await Promise.all(asked)).map(Number)
}

t.test('twenty of twenty at once over both gateways, by all keys', async (t) => {
  const payments = await Promise.all(
    Array.from({ length: AT_ONCE }, (_, n) => buyer.sign(at(n % 2, `a${n}`))),
  )
  chain.rpc.add('*', { kind: 'delay', ms: 40 })
  const responses = await Promise.all(payments.map((payment, n) => present(at(n % 2, `a${n}`), payment)))
  for (const { status, text } of responses) t.equal(status, 200, text)
  chain.rpc.clear()
  t.equal(api.calls.length, AT_ONCE)
  const counts = await used()
  t.equal(
    counts.reduce((sum, count) => sum + count),
    AT_ONCE,
  )
  t.ok(Math.min(...counts) > 0, String(counts))
  await holdTogether(AT_ONCE)
})

t.test('one payment, many times at once over both, buys one call', async (t) => {
  const payment = await buyer.sign(at(0, 'same'))
  const responses = await Promise.all(
    Array.from({ length: 30 }, (_, n) => present(at(n % 2, 'same'), payment)),
  )
  t.ok(responses.some(({ status }) => status === 200))
  t.equal(api.calls.length, AT_ONCE + 1)
  await holdTogether(AT_ONCE + 1)
})

t.test(
  'whoever has the keys is killed with payments under way: none is lost, none is taken twice',
  async (t) => {
    const payments = await Promise.all(Array.from({ length: 8 }, (_, n) => buyer.sign(at(asker, `k${n}`))))
    await chain.hold()
    const sentBefore = chain.rpc.forwarded('eth_sendRawTransaction')
    const first = payments.map((payment, n) =>
      present(at(n % 2 === 0 ? asker : holder, `k${n}`), payment).catch((): undefined => undefined),
    )
    await eventually(async () =>
      chain.rpc.forwarded('eth_sendRawTransaction') >= sentBefore + 2 ? true : undefined,
    )
    children[holder]!.signal('SIGKILL')
    await children[holder]!.exited
    await chain.release()
    const responses = await Promise.all(payments.map((payment, n) => bought(at(asker, `k${n}`), payment)))
    for (const { status } of responses) t.equal(status, 200)
    await Promise.all(first)
    const before = await used()
    const more = await Promise.all(Array.from({ length: 6 }, (_, n) => buyer.sign(at(asker, `m${n}`))))
    await Promise.all(more.map((payment, n) => bought(at(asker, `m${n}`), payment)))
    const after = await used()
    t.ok(
      after.every((count, i) => count > before[i]!),
      'the other one has all keys now',
    )
    await holdTogether(AT_ONCE + 1 + 8 + 6)
  },
)

const others = [
  { title: 'a gateway that knows one of the keys alone', facilitator: { privateKey: '${KEY_ONE}' } },
  { title: 'a gateway whose list lacks one of the keys', facilitator: { privateKeys: names.slice(1) } },
]
for (const [i, other] of others.entries()) {
  t.test(`${other.title} hands what it is paid to whoever has it`, async (t) => {
    const third = await config.beside(`other${i}`, ({ networks }) => {
      const theirs = { ...networks[chain.network], facilitator: other.facilitator }
      return { networks: { ...networks, [chain.network]: theirs } }
    })
    await startGateway(t, third, env)
    const target = `${link.replace(config.url, third.url)}?n=other${i}`
    const { status, text } = await present(target, await buyer.sign(target))
    t.equal(status, 200, text)
    await holdTogether(AT_ONCE + 1 + 8 + 6 + 1 + i)
  })
}

t.test('no key stands in what the commands print', async (t) => {
  for (const command of ['check', 'doctor']) {
    const { stdout, stderr } = await runTollgate(t, [command, '--config', config.file], env).exited
    const text = `${stdout}${stderr}${children.map((child) => child.stdout() + child.stderr()).join('')}`
    for (const key of keys) t.notOk(text.includes(key.slice(2)), command)
  }
})
