import { BatchSettlementEvmScheme, computeChannelId } from '@x402/evm/batch-settlement/client'
import fc from 'fast-check'
import t from 'tap'
import { type Abi, createPublicClient, type Hex, hashTypedData, http } from 'viem'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import type { ChannelConfig } from '../../../../core/domain/channel.ts'
import {
  BATCH_SETTLEMENT_ADDRESS,
  ChannelHashes,
  PERMIT2_COLLECTOR_ADDRESS,
} from '../../../../core/domain/channelHashes.ts'
import { readChannelPayment } from '../../../../core/x402/channelPayment.ts'
import { channelPayload, permit2DepositTypedData } from '../../../../core/x402/channelTerms.ts'
import batchSettlement from '../../../../localnet/evm/artefacts/BatchSettlement.json' with { type: 'json' }
import { startLocalEvm } from '../../../../localnet/evm/startLocalEvm.ts'
import { recoverSigner } from '../check/authorization.ts'
import { depositPermitDigest, permit2Separator } from '../check/permit2.ts'
import { createEvmChannelChain } from './channelChain.ts'

const network = 'eip155:84532'
const hashes = new ChannelHashes(84_532)
const abi = batchSettlement.abi as Abi

const hexOf = (bytes: number) =>
  fc
    .uint8Array({ minLength: bytes, maxLength: bytes })
    .map((b) => `0x${Buffer.from(b).toString('hex')}` as Hex)
const uint128 = fc.bigInt({ min: 0n, max: 2n ** 128n - 1n })
const configs = fc.record({
  payer: hexOf(20),
  payerAuthorizer: hexOf(20),
  receiver: hexOf(20),
  receiverAuthorizer: hexOf(20),
  token: hexOf(20),
  withdrawDelay: fc.integer({ min: 0, max: 2 ** 40 - 1 }),
  salt: hexOf(32),
})
const textOf = (digest: Uint8Array): Hex => `0x${Buffer.from(digest).toString('hex')}`

const chainOf = (authorizerKeys: readonly string[] = [generatePrivateKey()]) =>
  createEvmChannelChain({ network, rpc: undefined as never, authorizerKeys, settler: {} })

t.test('a channel has the id that the package computes', async (t) => {
  fc.assert(
    fc.property(configs, (config) => {
      t.equal(hashes.channelId(config), computeChannelId(config, network))
    }),
    { numRuns: 50 },
  )
})

t.test('ids and digests are those of the contract', async (t) => {
  const local = await startLocalEvm()
  t.teardown(local.close)
  const reader = createPublicClient({ chain: baseSepolia, transport: http(local.rpcUrl) })
  const ask = (functionName: string, args: unknown[]) =>
    reader.readContract({ address: BATCH_SETTLEMENT_ADDRESS, abi, functionName, args })
  const cases = fc.tuple(configs, uint128, uint128, fc.bigInt({ min: 0n, max: 2n ** 256n - 1n }))
  await fc.assert(
    fc.asyncProperty(cases, async ([config, max, amount, nonce]) => {
      const id = hashes.channelId(config as ChannelConfig)
      t.equal(id, await ask('getChannelId', [config]))
      t.equal(textOf(hashes.voucherDigest(id, max)), await ask('getVoucherDigest', [id, max]))
      t.equal(
        textOf(hashes.refundDigest(id, nonce, amount)),
        await ask('getRefundDigest', [id, nonce, amount]),
      )
      const claim = {
        voucher: { channel: config, maxClaimableAmount: max },
        signature: '0x',
        totalClaimed: amount,
      }
      const entry = { channelId: id, maxClaimableAmount: max, totalClaimed: amount }
      const digest = textOf(hashes.claimBatchDigest([entry, entry]))
      t.equal(digest, await ask('getClaimBatchDigest', [[claim, claim]]))
    }),
    { numRuns: 20 },
  )
})

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

t.test('a voucher is valid exactly in the form that the contract accepts', async (t) => {
  const chain = chainOf()
  const payer = privateKeyToAccount(generatePrivateKey())
  const address = payer.address.toLowerCase()
  await fc.assert(
    fc.asyncProperty(hexOf(32), uint128, async (id, max) => {
      const signature = await payer.sign({ hash: textOf(hashes.voucherDigest(id, max)) })
      t.ok(chain.isSigned(address, id, max, signature))
      t.notOk(chain.isSigned(address, id, max + 1n, signature), 'another amount')
      t.notOk(chain.isSigned(`0x${'1'.repeat(40)}`, id, max, signature), 'another account')
      const [r, s, v] = [signature.slice(2, 66), signature.slice(66, 130), signature.slice(130)]
      const twin = (ORDER - BigInt(`0x${s}`)).toString(16).padStart(64, '0')
      t.notOk(chain.isSigned(address, id, max, `0x${r}${twin}${v === '1b' ? '1c' : '1b'}`), 'a high s')
      t.notOk(chain.isSigned(address, id, max, `0x${r}${s}${v === '1b' ? '00' : '01'}`), 'v of 0 or 1')
      t.notOk(chain.isSigned(`0x${'0'.repeat(40)}`, id, max, signature), 'no authorizer')
    }),
    { numRuns: 20 },
  )
})

t.test('the payments of the official client are read whole', async (t) => {
  const account = privateKeyToAccount(generatePrivateKey())
  const client = new BatchSettlementEvmScheme(account)
  const chain = chainOf()
  const offer = {
    scheme: 'batch-settlement',
    network,
    amount: '1000',
    asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
    payTo: privateKeyToAccount(generatePrivateKey()).address,
    maxTimeoutSeconds: 60,
    extra: { name: 'USDC', version: '2', receiverAuthorizer: chain.authorizer, withdrawDelay: 3_600 },
  } as const
  const { payload } = await client.createPaymentPayload(2, offer)
  const read = readChannelPayment(payload as Record<string, unknown>)
  if (!read.ok) return t.fail(read.message)
  const { payment } = read
  t.match(payment, { type: 'deposit', maxClaimable: 1_000n, deposit: { amount: 5_000n }, refundAmount: null })
  t.equal(chain.channelId(payment.config), payment.channelId)
  t.ok(chain.isSigned(payment.config.payerAuthorizer, payment.channelId, 1_000n, payment.signature))
})

t.test('a deposit by Permit2 has the form and the digest of the official client', async (t) => {
  const account = privateKeyToAccount(generatePrivateKey())
  const client = new BatchSettlementEvmScheme(account)
  const offer = {
    scheme: 'batch-settlement',
    network,
    amount: '1000',
    asset: '0x036CbD53842c5426634e7929541eC2318f3dCF7e',
    payTo: privateKeyToAccount(generatePrivateKey()).address,
    maxTimeoutSeconds: 60,
    extra: {
      assetTransferMethod: 'permit2',
      receiverAuthorizer: chainOf().authorizer,
      withdrawDelay: 3_600,
    },
  } as const
  const { payload } = await client.createPaymentPayload(2, offer)
  const read = readChannelPayment(payload as Record<string, unknown>)
  if (!read.ok) return t.fail(read.message)
  const { config, channelId, deposit, maxClaimable, signature } = read.payment
  if (deposit === null || !('permit2' in deposit)) return t.fail('no deposit by Permit2')
  const { amount, validBefore, permit2 } = deposit
  t.strictSame(permit2, {
    from: account.address.toLowerCase(),
    token: offer.asset.toLowerCase(),
    amount: 5_000n,
    spender: PERMIT2_COLLECTOR_ADDRESS,
    nonce: permit2.nonce,
    channelId,
    allowance: undefined,
  })
  t.equal(await account.signTypedData(permit2DepositTypedData(network, deposit)), deposit.signature)
  const voucher = { channelId, maxClaimable, signature }
  t.strictSame(channelPayload('deposit', config, voucher, deposit), payload)

  const authorization = {
    from: permit2.from,
    to: BATCH_SETTLEMENT_ADDRESS,
    value: String(amount),
    validAfter: '0',
    validBefore: String(validBefore),
    nonce: String(permit2.nonce),
    signature: deposit.signature,
  }
  const part = { token: permit2.token, spender: permit2.spender, facilitator: null }
  const digest = depositPermitDigest(permit2Separator(84_532), authorization, part, channelId)
  t.equal(recoverSigner(digest, deposit.signature), permit2.from)
})

t.test('nothing but a payment by a channel is read', async (t) => {
  fc.assert(
    fc.property(fc.object(), (payload) => {
      const read = readChannelPayment(payload)
      t.notOk(read.ok)
    }),
    { numRuns: 50 },
  )
  for (const payload of [
    { type: 'voucher' },
    { type: 'claim' },
    JSON.parse('{"__proto__":{"type":"voucher"}}'),
  ])
    t.match(readChannelPayment(payload), { ok: false, message: /payload/ })
})

t.test('EIP-712 libraries agree on the voucher', async (t) => {
  const id = `0x${'ab'.repeat(32)}` as Hex
  const digest = hashTypedData({
    domain: {
      name: 'x402 Batch Settlement',
      version: '1',
      chainId: 84_532,
      verifyingContract: BATCH_SETTLEMENT_ADDRESS,
    },
    types: {
      Voucher: [
        { name: 'channelId', type: 'bytes32' },
        { name: 'maxClaimableAmount', type: 'uint128' },
      ],
    },
    primaryType: 'Voucher',
    message: { channelId: id, maxClaimableAmount: 7n },
  })
  t.equal(textOf(hashes.voucherDigest(id, 7n)), digest)
})
