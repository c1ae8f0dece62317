import { randomBytes } from 'node:crypto'
import type { Test } from 'tap'
import {
  generatePrivateKey,
  mnemonicToAccount,
  type PrivateKeyAccount,
  privateKeyToAccount,
} from 'viem/accounts'
import type { EvmSettlerOptions } from '../../../../adapters/chains/evm/options.ts'
import type { Hex } from '../../../../adapters/chains/evm/rpc/nodes.ts'
import { createEvmSettler } from '../../../../adapters/chains/evm/settler.ts'
import { type Asset, builtInAssets } from '../../../../core/domain/asset.ts'
import type { PaymentIdentity, PaymentRecord, SettlementAttempt } from '../../../../core/domain/payment.ts'
import type { Settler } from '../../../../core/ports/chains/settler.ts'
import { type PaymentPayload, type PaymentRequirements, transferTypes } from '../../../../core/x402/types.ts'
import {
  LOCAL_EVM_MNEMONIC,
  type LocalEvm,
  type LocalEvmOptions,
  startLocalEvm,
} from '../../../../localnet/evm/startLocalEvm.ts'
import { samplePayment } from '../../../contracts/samples.ts'
import { type FaultyRpc, startFaultyRpc } from '../../localnet/startFaultyRpc.ts'

export const network = 'eip155:84532'
export const usdc = builtInAssets.find((asset) => asset.network === network) as Asset
export const seller = '0x2096EE47Fd2A3b9f2C0D7A5d5d9B2c8A3F4e5D61'.toLowerCase()

export const termsOf = (changes: Partial<PaymentRequirements> = {}): PaymentRequirements => ({
  scheme: 'exact',
  network,
  amount: '10000',
  asset: usdc.address,
  payTo: seller,
  maxTimeoutSeconds: 60,
  extra: { name: 'USDC', version: '2', decimals: 6 },
  ...changes,
})

export interface AuthorizationFields {
  from: string
  to: string
  value: string
  validAfter: string
  validBefore: string
  nonce: string
}

/** A payment as a v2 client signs it; `changes` are signed, not made afterwards. */
export async function signPayment(
  account: PrivateKeyAccount,
  terms: PaymentRequirements,
  changes: Partial<AuthorizationFields> = {},
  signature?: (signed: Hex) => Hex,
): Promise<PaymentPayload> {
  const now = Math.floor(Date.now() / 1000)
  const authorization: AuthorizationFields = {
    from: account.address,
    to: terms.payTo,
    value: terms.amount,
    validAfter: String(now - 600),
    validBefore: String(now + terms.maxTimeoutSeconds),
    nonce: `0x${randomBytes(32).toString('hex')}`,
    ...changes,
  }
  const signed = await account.signTypedData({
    domain: { name: 'USDC', version: '2', chainId: 84532, verifyingContract: terms.asset as Hex },
    types: transferTypes,
    primaryType: 'TransferWithAuthorization',
    message: {
      from: authorization.from as Hex,
      to: authorization.to as Hex,
      value: BigInt(authorization.value),
      validAfter: BigInt(authorization.validAfter),
      validBefore: BigInt(authorization.validBefore),
      nonce: authorization.nonce as Hex,
    },
  })
  const payload = { signature: signature?.(signed) ?? signed, authorization }
  return { x402Version: 2, scheme: 'exact', network, payload, accepted: { ...terms } }
}

export const newAccount = (): PrivateKeyAccount => privateKeyToAccount(generatePrivateKey())

/** The row of the payments table that a crash would leave. */
export const recordOf = (
  identity: PaymentIdentity,
  attempt: SettlementAttempt | null,
  transaction: string | null = null,
): PaymentRecord =>
  samplePayment(identity, {
    state: transaction === null ? 'settling' : 'settled',
    attempt,
    transaction,
  })

export interface SettlerFixture {
  readonly chain: LocalEvm
  readonly rpc: FaultyRpc
  readonly settler: Settler
  /** Has 5 USDC. */
  readonly buyer: PrivateKeyAccount
  readonly settlingKey: Hex
  /** Another settler of the same key and chain, as after a restart. */
  another(changes?: Partial<EvmSettlerOptions>): Settler
  /** Signs and checks a payment. */
  pay(changes?: Partial<AuthorizationFields>): Promise<{ payment: PaymentPayload; identity: PaymentIdentity }>
  terms: PaymentRequirements
}

/**
 * For many transactions at once: on a busy machine anvil can miss one of them until the next block, which this chain has each second.
 */
export const alsoEachSecond: LocalEvmOptions = { blockTimeMs: 1_000, minesAtOnce: true }

/** A settler on a chain of its own, through a proxy that misbehaves on request. */
export async function startSettler(
  t: Test,
  changes: Partial<EvmSettlerOptions> = {},
  chainOptions: LocalEvmOptions = {},
): Promise<SettlerFixture> {
  const chain = await startLocalEvm(chainOptions)
  t.teardown(() => chain.close())
  const rpc = await startFaultyRpc(chain.rpcUrl)
  t.teardown(() => rpc.close())
  const settlingKey =
    `0x${Buffer.from(mnemonicToAccount(LOCAL_EVM_MNEMONIC, { addressIndex: 3 }).getHdKey().privateKey!).toString('hex')}` as const
  const buyer = newAccount()
  await chain.mintUsdc(buyer.address, 5_000_000n)
  const terms = termsOf()
  const another = (more: Partial<EvmSettlerOptions> = {}): Settler => {
    const settler = createEvmSettler({
      network,
      rpcUrls: [rpc.url],
      privateKeys: [settlingKey],
      assets: [usdc],
      firstPollMs: 5,
      pollMs: 40,
      receiptTimeoutMs: 5_000,
      staleHeadMs: Number.POSITIVE_INFINITY,
      ...changes,
      ...more,
    })
    t.teardown(() => settler.close())
    return settler
  }
  const settler = another()
  return {
    chain,
    rpc,
    settler,
    buyer,
    settlingKey,
    another,
    terms,
    async pay(fields) {
      const payment = await signPayment(buyer, terms, fields)
      const checked = await settler.check(payment, terms)
      if (!checked.ok) throw new Error(`${checked.reason}: ${checked.message}`)
      return { payment, identity: checked.identity }
    },
  }
}

/** Keeps what it is given, and says yes. */
export const remember = (attempts: SettlementAttempt[]) => async (attempt: SettlementAttempt) => {
  attempts.push(attempt)
  return true
}
