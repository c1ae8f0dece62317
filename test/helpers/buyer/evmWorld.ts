import type { Test } from 'tap'
import { type Address, createPublicClient, createWalletClient, type Hex, http, parseAbi } from 'viem'
import { generatePrivateKey, mnemonicToAccount, privateKeyToAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import { createEvmBuyer } from '../../../buyer/chains/evmBuyer.ts'
import type { PayOptions } from '../../../buyer/payOptions.ts'
import { type LocalEvm, startLocalEvm } from '../../../localnet/evm/startLocalEvm.ts'
import { honestOffer } from './honestOffer.ts'
import { createPayOnce, type PaidRun } from './payOnce.ts'
import { type Answer, deliver, offer, type Received } from './seller.ts'

const settleAbi = parseAbi([
  'function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)',
])

export const PRICE = '10000'

/** A local chain, a buyer with 10 USDC, and sellers that settle there. */
export interface EvmWorld {
  readonly chain: LocalEvm
  readonly privateKey: Hex
  readonly buyer: Address
  readonly payTo: Address
  /** The honest offer for this address, at 0.01 USDC; parts can be replaced. */
  offerFor(url: string, entry?: object, rest?: object): Record<string, unknown>
  /** Settles a payment on chain as a facilitator does. @returns the transaction */
  settle(request: Received): Promise<Hex>
  /** What an honest seller says about a settled payment. */
  receiptOf(transaction: string, more?: object): Record<string, unknown>
  /** 402, then settle and deliver. */
  readonly honest: Answer
  /** Starts a seller, pays it once with a fresh wallet object, and tells what happened. */
  pay(respond: Answer, options?: Partial<PayOptions>): Promise<PaidRun>
}

export async function startEvmWorld(t: Test): Promise<EvmWorld> {
  const chain = await startLocalEvm()
  t.teardown(() => chain.close())
  const transport = http(chain.rpcUrl)
  const settler = createWalletClient({
    account: mnemonicToAccount(chain.mnemonic),
    chain: baseSepolia,
    transport,
  })
  const reader = createPublicClient({ chain: baseSepolia, transport, pollingInterval: 50 })
  const privateKey = generatePrivateKey()
  const buyer = privateKeyToAccount(privateKey).address
  const payTo = privateKeyToAccount(generatePrivateKey()).address
  await chain.mintUsdc(buyer, 10_000_000n)

  const world: EvmWorld = {
    chain,
    privateKey,
    buyer,
    payTo,
    offerFor: (url, entry, rest) =>
      honestOffer(
        url,
        {
          network: chain.network,
          amount: PRICE,
          asset: chain.usdcAddress,
          payTo,
          extra: { name: 'USDC', version: '2', decimals: 6 },
        },
        entry,
        rest,
      ),
    async settle({ payment }) {
      const { signature, authorization: a } = payment!['payload'] as {
        signature: Hex
        authorization: Record<string, string>
      }
      const hash = await settler.writeContract({
        address: chain.usdcAddress,
        abi: settleAbi,
        functionName: 'transferWithAuthorization',
        args: [
          a['from'] as Address,
          a['to'] as Address,
          BigInt(a['value']!),
          BigInt(a['validAfter']!),
          BigInt(a['validBefore']!),
          a['nonce'] as Hex,
          signature,
        ],
      })
      await reader.waitForTransactionReceipt({ hash })
      return hash
    },
    receiptOf: (transaction, more = {}) => ({
      success: true,
      transaction,
      network: chain.network,
      payer: buyer,
      ...more,
    }),
    honest: async (request, response, seller) => {
      if (request.payment === null) return offer(response, world.offerFor(seller.url))
      deliver(response, world.receiptOf(await world.settle(request)))
    },
    pay: createPayOnce(t, {
      family: 'eip155',
      rpcUrl: chain.rpcUrl,
      wallet: () => createEvmBuyer({ privateKey, rpcUrl: chain.rpcUrl }),
      balance: () => chain.balanceUsdc(buyer),
    }),
  }
  return world
}
