import t from 'tap'
import { newBuyer, present } from './helpers/buyers.ts'
import { startChains } from './helpers/chains.ts'
import { eventually } from './helpers/eventually.ts'
import { startProduct } from './helpers/product.ts'

t.test(
  'a gateway that starts without its chains serves free links, and sells when they are there',
  async (t) => {
    const chains = await startChains(t)
    for (const { rpc } of chains.both) rpc.add('*', { kind: 'refuse' })
    const product = await startProduct(t, {}, chains)
    const free = await product.addLink('free', '0')
    t.equal((await fetch(`${free}?n=free`)).status, 200)
    const readyz = `${product.tollgate.adminUrl}/readyz`
    t.equal((await fetch(readyz)).status, 503, 'and says that it is not ready')
    const paid = await product.addLink('paid')
    for (const chain of chains.both) {
      const buyer = await newBuyer(chains, chain)
      const payment = await buyer.sign(`${paid}?n=${chain.name}`)
      const refused = await present(`${paid}?n=${chain.name}`, payment)
      t.match(refused, { status: 503, body: { error: { code: 'settlement_unavailable' } } })
      chain.rpc.clear()
      t.equal((await present(`${paid}?n=${chain.name}`, payment)).status, 200)
    }
    // A network is queried at most once a second, regardless of the number of readiness requests.
    await eventually(async () => (await fetch(readyz)).status === 200 || undefined, 5_000)
  },
)

t.test('a node of another chain is never believed', async (t) => {
  const chains = await startChains(t)
  const [evm, solana] = chains.both
  const solanaMainnet = '5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d'
  evm.rpc.add('eth_chainId', { kind: 'result', result: '0x1' })
  solana.rpc.add('getGenesisHash', { kind: 'result', result: solanaMainnet })
  const product = await startProduct(t, {}, chains)
  const url = await product.addLink('wrong')
  for (const chain of chains.both) {
    const buyer = await newBuyer(chains, chain)
    const refused = await present(`${url}?n=${chain.name}`, await buyer.sign(`${url}?n=${chain.name}`))
    t.match(refused, { status: 503, body: { error: { code: 'settlement_unavailable' } } })
    t.equal(chain.rpc.calls(chain.methods.broadcast), 0)
  }
  const problems = (await product.doctor()).filter(({ ok }) => !ok)
  t.ok(problems.length >= 2, 'doctor names both')
})
