import { x402Client, x402HTTPClient } from '@x402/core/client'
import { BatchSettlementEvmScheme, computeChannelId } from '@x402/evm/batch-settlement/client'
import { wrapFetchWithPayment } from '@x402/fetch'
import { createPublicClient, http } from 'viem'
import { generatePrivateKey, type PrivateKeyAccount, privateKeyToAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import { BATCH_SETTLEMENT_ADDRESS } from '../../../localnet/evm/startLocalEvm.ts'
import type { Chains } from './chains.ts'

/** The authorizer's key of a test's configuration. */
export const authorizerKey = generatePrivateKey()

/** The configuration of channels on the local EVM chain: nothing is claimed before a test says so. */
export const channelsSection = (more: object = {}) => ({
  channels: {
    authorizerKeys: [authorizerKey],
    withdrawDelaySeconds: 3_600,
    minDeposit: '0.01',
    claimAmount: '1000',
    claimAfterMs: 3_600_000,
    ...more,
  },
})

/** A wallet with money, and the official client of payment channels. */
export interface ChannelBuyer {
  readonly address: string
  readonly account: PrivateKeyAccount
  readonly scheme: BatchSettlementEvmScheme
  readonly client: x402HTTPClient
  readonly fetch: typeof fetch
  /** Another client of the same wallet, which has lost its own records. */
  forgetful(): Pick<ChannelBuyer, 'scheme' | 'fetch' | 'client'>
}

/** @param send how its requests are sent */
export async function newChannelBuyer(
  { evm }: Chains,
  amountAtomic = 50_000_000n,
  send: typeof fetch = fetch,
): Promise<ChannelBuyer> {
  const account = privateKeyToAccount(generatePrivateKey())
  await evm.mintUsdc(account.address, amountAtomic)
  const reader = createPublicClient({ chain: baseSepolia, transport: http(evm.rpcUrl) })
  const signer = {
    address: account.address,
    signTypedData: (data: unknown) =>
      account.signTypedData(data as Parameters<typeof account.signTypedData>[0]),
    readContract: (call: unknown) => reader.readContract(call as Parameters<typeof reader.readContract>[0]),
  }
  const clientOf = () => {
    const scheme = new BatchSettlementEvmScheme(signer)
    const schemes = [{ network: evm.network as `eip155:${string}`, client: scheme }]
    const client = new x402HTTPClient(x402Client.fromConfig({ schemes }))
    return { scheme, client, fetch: wrapFetchWithPayment(send, client) as typeof fetch }
  }
  return { address: account.address, account, ...clientOf(), forgetful: clientOf }
}

/** Sends requests to the gateways in turn, as a load balancer does. */
export function inTurn(origins: readonly string[]): typeof fetch {
  let sent = 0
  return (input, init) => {
    const request = new Request(input, init)
    const { pathname, search } = new URL(request.url)
    return fetch(new Request(`${origins[sent++ % origins.length]}${pathname}${search}`, request))
  }
}

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

/** What is wrong with a voucher. */
export interface VoucherFault {
  readonly max?: bigint
  readonly config?: object
  readonly channelId?: string
  readonly highS?: boolean
  readonly lowV?: boolean
  readonly stranger?: boolean
}

/** `PAYMENT-SIGNATURE` with a voucher of a channel for the address, with a fault. */
export async function signVoucher(buyer: ChannelBuyer, url: string, fault: VoucherFault): Promise<string> {
  const response = await fetch(url)
  const offer = JSON.parse(Buffer.from(response.headers.get('payment-required')!, 'base64').toString())
  const accepted = offer.accepts.find(({ scheme }: { scheme: string }) => scheme === 'batch-settlement')
  const config = { ...buyer.scheme.buildChannelConfig(accepted), ...fault.config }
  let channelId = fault.channelId
  try {
    channelId ??= computeChannelId(config, accepted.network)
  } catch {
    channelId = `0x${'00'.repeat(32)}`
  }
  const signer = fault.stranger === true ? privateKeyToAccount(generatePrivateKey()) : buyer.account
  let signature = await signer.signTypedData({
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
    message: { channelId: channelId as `0x${string}`, maxClaimableAmount: fault.max ?? 0n },
  })
  const [r, s, v] = [signature.slice(2, 66), signature.slice(66, 130), signature.slice(130)]
  if (fault.highS === true) {
    const twin = (ORDER - BigInt(`0x${s}`)).toString(16).padStart(64, '0')
    signature = `0x${r}${twin}${v === '1b' ? '1c' : '1b'}`
  }
  if (fault.lowV === true) signature = `0x${r}${s}${v === '1b' ? '00' : '01'}`
  const voucher = { channelId, maxClaimableAmount: String(fault.max ?? 0n), signature }
  const payload = { type: 'voucher', channelConfig: config, voucher }
  const payment = { x402Version: 2, accepted, payload, resource: offer.resource }
  return Buffer.from(JSON.stringify(payment)).toString('base64')
}
