import t from 'tap'
import { readAuthorization } from '../../adapters/chains/evm/check/authorization.ts'
import { payCall } from '../../adapters/chains/evm/check/transferCalls.ts'
import type { Hex } from '../../adapters/chains/evm/rpc/nodes.ts'
import { sendFrom } from '../helpers/localnet/sendToken.ts'
import { newBuyer, present } from './helpers/buyers.ts'
import { startChains } from './helpers/chains.ts'
import { startProduct } from './helpers/product.ts'

const maxFailuresPerPayer = 5
const chains = await startChains(t)
const [chain] = chains.both
const product = await startProduct(
  t,
  { evm: { facilitator: { privateKey: '${TOLLGATE_FACILITATOR_EVM_KEY}', maxFailuresPerPayer } } },
  chains,
)

t.test('an authorization that anybody reads on chain is not held against whoever signed it', async (t) => {
  const url = await product.addLink('used', '0.01')
  const buyer = await newBuyer(chains, chain)
  const bought = `${url}?n=bought`
  const own = await buyer.sign(bought)
  t.equal((await present(bought, own)).status, 200)

  // The seller is paid at another place as well: what the buyer signed there stands in that transaction.
  const elsewhere = await buyer.sign(url)
  const read = readAuthorization(JSON.parse(Buffer.from(elsewhere, 'base64').toString()).payload)
  if (!read.ok) throw new Error(read.message)
  const { to, data } = payCall(chain.usdc, read.authorization, undefined)
  await sendFrom(chains.evm, `0x${'5e'.repeat(20)}`, to as Hex, data as Hex)

  for (let i = 0; i < 2 * maxFailuresPerPayer; i++)
    t.equal((await present(`${url}?n=stranger-${i}`, elsewhere)).status, 402)

  t.match(await present(bought, own), { status: 200 }, 'what it has bought is still its own')
  const next = `${url}?n=next`
  t.match(await present(next, await buyer.sign(next)), { status: 200 }, 'and it buys the next')
})

t.test('a buyer whose failures are used up gets what it has bought before all the same', async (t) => {
  const url = await product.addLink('spent', '0.01')
  const buyer = await newBuyer(chains, chain, 10_000n)
  const bought = `${url}?n=bought`
  const own = await buyer.sign(bought)
  t.equal((await present(bought, own)).status, 200)
  for (let i = 0; i < maxFailuresPerPayer; i++)
    t.equal((await present(`${url}?n=${i}`, await buyer.sign(`${url}?n=${i}`))).status, 402)
  const last = `${url}?n=last`
  const refused = await present(last, await buyer.sign(last))
  t.match(refused, { status: 402, body: { error: { reason: 'payer_failure_budget_exhausted' } } })
  t.match(await present(bought, own), { status: 200 })
})
