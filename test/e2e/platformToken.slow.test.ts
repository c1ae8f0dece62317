import t from 'tap'
import { type Address, encodeAbiParameters, keccak256, numberToHex } from 'viem'
import testUsdc from '../../localnet/evm/artefacts/TestUSDC.json' with { type: 'json' }
import { newBuyer, present } from './helpers/buyers.ts'
import { startChains } from './helpers/chains.ts'
import { startProduct } from './helpers/product.ts'

const chains = await startChains(t)
const [evmChain, solanaChain] = chains.both
const { evm, solana } = chains

/** A token of the platform's own: the code of a token with EIP-3009 at another address, a mint of Token-2022. */
const evmToken: Address = '0x7011000000000000000000000000000000000001'
await evm.rpc('anvil_setCode', evmToken, testUsdc.deployedBytecode)
const tokens = { evm: evmToken, solana: solana.token2022Mint }

async function give(owner: string, chain: (typeof chains.both)[number], amountAtomic: bigint): Promise<void> {
  if (chain.name === 'solana') return solana.mintToken(tokens.solana, owner, amountAtomic)
  const slot = keccak256(
    encodeAbiParameters(
      [{ type: 'address' }, { type: 'uint256' }],
      [owner as Address, BigInt(testUsdc.storageSlots.balances)],
    ),
  )
  await evm.rpc('anvil_setStorageAt', evmToken, slot, numberToHex(amountAtomic, { size: 32 }))
  await evm.mine()
}

const common = { symbol: 'TOLL', decimals: 6, feeBps: 400, usdPerUnit: '0.25' }
const assets = [
  { ...common, network: evmChain.network, address: tokens.evm, eip712: { name: 'USDC', version: '2' } },
  { ...common, network: solanaChain.network, address: tokens.solana, program: 'token-2022' },
]
const product = await startProduct(t, { sections: { assets } }, chains)
const { payTo, tollgate } = product
const { purchases } = tollgate.stack.store
solana.createAta(payTo(solanaChain), tokens.solana)
const url = await product.addLink('token', '0.03')

t.test('USDC is offered first, then the platform’s token at its rate', async (t) => {
  const { accepts } = (await (await fetch(`${url}?n=offer`)).json()) as {
    accepts: { network: string; asset: string; amount: string }[]
  }
  t.match(accepts, [
    { network: evmChain.network, asset: evmChain.usdc, amount: '30000' },
    { network: solanaChain.network, asset: solanaChain.usdc, amount: '30000' },
    { network: evmChain.network, asset: tokens.evm, amount: '120000' },
    { network: solanaChain.network, asset: tokens.solana, amount: '120000' },
  ])
})

for (const chain of chains.both) {
  t.test(`a call is paid in the platform’s token on ${chain.name}, with its own fee`, async (t) => {
    const token = tokens[chain.name]
    const buyer = await newBuyer(chains, chain)
    await give(buyer.address, chain, 1_000_000n)
    const usdc = await chain.balance(buyer.address)

    const bought = await present(`${url}?n=${chain.name}`, await buyer.sign(url, token))
    t.equal(bought.status, 200, bought.text)
    t.equal(await chain.balance(payTo(chain), token), 120_000n)
    t.equal(await chain.balance(buyer.address, token), 880_000n)
    t.equal(await chain.balance(buyer.address), usdc, 'no USDC was moved')
    t.strictSame(await chain.transfersTo(payTo(chain), token), [bought.receipt?.transaction])

    const { purchaseId } = bought.body._svc!
    const purchase = await purchases.find(purchaseId)
    t.match(purchase, { symbol: 'TOLL', amountAtomic: 120_000n, feeAtomic: 4_800n, status: String })
    t.match(purchase?.priceUsd, /^0\.030*$/, 'revenue counts in USDC')
    const booked = Object.fromEntries(
      (await purchases.ledger(purchaseId)).map((e) => [e.account.split(':')[0], e.amountAtomic]),
    )
    t.strictSame(booked, { buyer: -120_000n, seller: 120_000n, 'fees-owed': -4_800n, platform: 4_800n })
  })

  t.test(`USDC on the same link has its own fee on ${chain.name}`, async (t) => {
    const buyer = await newBuyer(chains, chain)
    const bought = await present(`${url}?n=usdc-${chain.name}`, await buyer.sign(url))
    t.equal(bought.status, 200, bought.text)
    const purchase = await purchases.find(bought.body._svc!.purchaseId)
    t.match(purchase, { symbol: 'USDC', amountAtomic: 30_000n, feeAtomic: 1_500n })
  })

  t.test(`a payment in one token for the price of the other is refused on ${chain.name}`, async (t) => {
    const token = tokens[chain.name]
    const buyer = await newBuyer(chains, chain)
    await give(buyer.address, chain, 1_000_000n)
    const payment = JSON.parse(Buffer.from(await buyer.sign(url, token), 'base64').toString())
    payment.accepted.asset = chain.usdc
    const forged = Buffer.from(JSON.stringify(payment)).toString('base64')
    const refused = await present(`${url}?n=forged-${chain.name}`, forged)
    t.match(refused, { status: 402, body: { error: { code: 'invalid_payment', reason: String } } })
    t.equal(await chain.balance(buyer.address, token), 1_000_000n)
  })
}

t.test('the books agree with the chains, token by token', async (t) => {
  t.strictSame(
    (await product.doctor()).filter((finding) => !finding.ok),
    [],
  )
})
