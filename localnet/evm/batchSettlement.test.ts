import { toFacilitatorEvmSigner } from '@x402/evm'
import { BatchSettlementEvmScheme as Client } from '@x402/evm/batch-settlement/client'
import { BatchSettlementEvmScheme as Facilitator } from '@x402/evm/batch-settlement/facilitator'
import t, { type Test } from 'tap'
import { type Address, createPublicClient, createWalletClient, type Hex, http, publicActions } from 'viem'
import { generatePrivateKey, mnemonicToAccount, privateKeyToAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import { startLocalEvm } from './startLocalEvm.ts'

const resource = { url: 'https://seller.example/paid', description: '', mimeType: 'text/plain' }
const requirements = {
  scheme: 'batch-settlement',
  network: 'eip155:84532',
  amount: '1000',
  maxTimeoutSeconds: 60,
} as const

/** A local chain with the official client and facilitator of payment channels, both unmodified. */
async function startParties(t: Test) {
  const chain = await startLocalEvm()
  t.teardown(chain.close)
  const buyer = privateKeyToAccount(generatePrivateKey())
  const authorizer = privateKeyToAccount(generatePrivateKey())
  const payTo = privateKeyToAccount(generatePrivateKey()).address
  await chain.mintUsdc(buyer.address, 100_000n)
  const transport = http(chain.rpcUrl)
  const account = mnemonicToAccount(chain.mnemonic)
  const wallet = createWalletClient({ account, chain: baseSepolia, transport }).extend(publicActions)
  const signer = toFacilitatorEvmSigner({ ...wallet, address: account.address } as unknown as Parameters<
    typeof toFacilitatorEvmSigner
  >[0])
  const reader = createPublicClient({ chain: baseSepolia, transport })
  const client = new Client({
    address: buyer.address,
    signTypedData: (data) => buyer.signTypedData(data as Parameters<typeof buyer.signTypedData>[0]),
    readContract: (call) => reader.readContract(call as Parameters<typeof reader.readContract>[0]),
  })
  const accepted = {
    ...requirements,
    asset: chain.usdcAddress as string,
    payTo,
    extra: { name: 'USDC', version: '2', receiverAuthorizer: authorizer.address, withdrawDelay: 3_600 },
  }
  return { chain, client, facilitator: new Facilitator(signer, authorizer), accepted, buyer, payTo }
}

t.test('the official facilitator deposits, claims, settles and refunds by the local contract', async (t) => {
  const { chain, client, facilitator, accepted, buyer, payTo } = await startParties(t)
  const created = await client.createPaymentPayload(2, accepted)
  const payment = { ...created, resource, accepted }
  t.match(await facilitator.verify(payment, accepted), { isValid: true, payer: buyer.address })
  const deposited = await facilitator.settle(payment, accepted)
  t.match(deposited, { success: true, extra: { channelState: { balance: '5000', totalClaimed: '0' } } })
  t.equal(await chain.balanceUsdc(buyer.address), 95_000n)

  const { channelConfig, voucher } = created.payload as {
    channelConfig: { payer: Address }
    voucher: { channelId: Hex; maxClaimableAmount: string; signature: Hex }
  }
  const claims = [
    {
      voucher: { channel: channelConfig, maxClaimableAmount: voucher.maxClaimableAmount },
      signature: voucher.signature,
      totalClaimed: '1000',
    },
  ]
  const settle = (payload: object) =>
    facilitator.settle({ x402Version: 2, resource, accepted, payload } as never, accepted)
  t.match(await settle({ type: 'claim', claims }), { success: true })
  t.match(await settle({ type: 'claim', claims }), { success: true }, 'a repeated claim changes nothing')
  t.match(await settle({ type: 'settle', receiver: payTo, token: chain.usdcAddress }), {
    success: true,
    amount: '1000',
  })
  t.equal(await chain.balanceUsdc(payTo), 1_000n)
  t.match(
    await settle({ type: 'refund', channelConfig, voucher, claims: [], amount: '4000', refundNonce: '0' }),
    { success: true, amount: '4000', extra: { channelState: { balance: '1000', refundNonce: '1' } } },
  )
  t.equal(await chain.balanceUsdc(buyer.address), 99_000n)
})

t.test('the official facilitator deposits by Permit2 and the local collector', async (t) => {
  const { chain, client, facilitator, accepted, buyer } = await startParties(t)
  const byPermit2 = { ...accepted, extra: { ...accepted.extra, assetTransferMethod: 'permit2' } }
  const created = await client.createPaymentPayload(2, byPermit2)
  const payment = { ...created, resource, accepted: byPermit2 }
  t.match(await facilitator.verify(payment, byPermit2), {
    isValid: false,
    invalidReason: /permit2_allowance_required/,
  })
  await chain.allowPermit2(buyer.address)
  t.match(await facilitator.verify(payment, byPermit2), { isValid: true, payer: buyer.address })
  const deposited = await facilitator.settle(payment, byPermit2)
  t.match(deposited, { success: true, extra: { channelState: { balance: '5000' } } })
  t.match(await facilitator.settle(payment, byPermit2), { success: false }, 'a used permit')
  t.equal(await chain.balanceUsdc(buyer.address), 95_000n)
})

t.test("the official facilitator deposits with the token's permit for Permit2", async (t) => {
  const { chain, client, facilitator, accepted, buyer } = await startParties(t)
  const byPermit2 = { ...accepted, extra: { ...accepted.extra, assetTransferMethod: 'permit2' } }
  const extensions = { eip2612GasSponsoring: { info: {}, schema: {} } }
  const created = await client.createPaymentPayload(2, byPermit2, { extensions } as never)
  const payment = { ...created, resource, accepted: byPermit2 }
  t.match(await facilitator.verify(payment as never, byPermit2), { isValid: true })
  t.match(await facilitator.settle(payment as never, byPermit2), { success: true })
  t.equal(await chain.balanceUsdc(buyer.address), 95_000n)
})

t.test('a claim with a broken voucher is refused by the official facilitator', async (t) => {
  const { client, facilitator, accepted } = await startParties(t)
  const created = await client.createPaymentPayload(2, accepted)
  t.match(await facilitator.settle({ ...created, resource, accepted }, accepted), { success: true })
  const { channelConfig, voucher } = created.payload as never as {
    channelConfig: object
    voucher: { maxClaimableAmount: string; signature: Hex }
  }
  const broken = { voucher: { channel: channelConfig, maxClaimableAmount: '2000' }, totalClaimed: '2000' }
  const payload = { type: 'claim', claims: [{ ...broken, signature: voucher.signature }] }
  const refused = await facilitator.settle({ x402Version: 2, resource, accepted, payload } as never, accepted)
  t.match(refused, { success: false, errorReason: /claim_simulation_failed/ })
})
