import { base58 } from '@scure/base'
import type { Test } from 'tap'
import { type Address, numberToHex, pad, parseAbiItem, toEventSelector } from 'viem'
import { generatePrivateKey, privateKeyToAddress } from 'viem/accounts'
import { createDemoFacilitator, newSolanaSecret } from '../../../localnet/demoWallets.ts'
import { type LocalEvm, type LocalEvmOptions, startLocalEvm } from '../../../localnet/evm/startLocalEvm.ts'
import { createJsonRpcClient } from '../../../localnet/jsonRpcClient.ts'
import {
  type LocalSolana,
  type LocalSolanaOptions,
  startLocalSolana,
} from '../../../localnet/solana/startLocalSolana.ts'
import { type FaultyRpc, startFaultyRpc } from '../../helpers/localnet/startFaultyRpc.ts'

/** One of the two chains that a test pays on, seen the same way. */
export interface Chain {
  readonly name: 'evm' | 'solana'
  readonly network: `${string}:${string}`
  /** The gateway asks the chain through this; buyers and the test ask the chain itself. */
  readonly rpc: FaultyRpc
  /** How the node is asked to broadcast, and what became of it. */
  readonly methods: { readonly broadcast: string; readonly status: string; readonly verify: string }
  readonly usdc: string
  /** Atomic units in a wallet. */
  balance(owner: string, asset?: string): Promise<bigint>
  /** Transactions that moved the asset to a wallet, oldest first. */
  transfersTo(owner: string, asset?: string): Promise<string[]>
  /** Transactions are accepted and not put into blocks, until `release`. */
  hold(): Promise<void>
  release(): Promise<void>
}

/** Both local chains, each behind a proxy that misbehaves on request, with funded settling keys. */
export interface Chains {
  readonly evm: LocalEvm
  readonly solana: LocalSolana
  readonly both: readonly [Chain, Chain]
  /** Settling keys by the names that configurations use. */
  readonly env: Readonly<Record<string, string>>
}

const transferTopic = toEventSelector(
  parseAbiItem('event Transfer(address indexed from, address indexed to, uint256 value)'),
)

export async function startChains(
  t: Pick<Test, 'teardown'>,
  options: { readonly evm?: LocalEvmOptions; readonly solana?: LocalSolanaOptions } = {},
): Promise<Chains> {
  // Slots are short, so that tests are; a block hash is good for a minute all the same, as on the real chain.
  const { slotMs = 25 } = options.solana ?? {}
  const blockhashLifetimeSlots = Math.ceil(60_000 / slotMs)
  const [evm, solana] = await Promise.all([
    startLocalEvm(options.evm),
    startLocalSolana({ blockhashLifetimeSlots, ...options.solana, slotMs }),
  ])
  const [evmRpc, solanaRpc] = await Promise.all([startFaultyRpc(evm.rpcUrl), startFaultyRpc(solana.rpcUrl)])
  t.teardown(async () => {
    await Promise.all([evmRpc.close(), solanaRpc.close()])
    await Promise.all([evm.close(), solana.close()])
  })
  const { evmKey, solanaKey } = await createDemoFacilitator(evm, solana)
  const env = { TOLLGATE_FACILITATOR_EVM_KEY: evmKey, TOLLGATE_FACILITATOR_SOLANA_KEY: solanaKey }
  return { evm, solana, both: [evmChain(evm, evmRpc), solanaChain(solana, solanaRpc)], env }
}

function evmChain(evm: LocalEvm, rpc: FaultyRpc): Chain {
  return {
    name: 'evm',
    network: evm.network as Chain['network'],
    rpc,
    methods: {
      broadcast: 'eth_sendRawTransaction',
      status: 'eth_getTransactionReceipt',
      verify: 'eth_call',
    },
    usdc: evm.usdcAddress,
    async balance(owner, asset = evm.usdcAddress) {
      const data = `0x70a08231${pad(owner as Address).slice(2)}`
      return BigInt(await evm.rpc<string>('eth_call', { to: asset, data }, 'latest'))
    },
    async transfersTo(owner, asset = evm.usdcAddress) {
      const topics = [transferTopic, null, pad(owner.toLowerCase() as Address)]
      const between = async (first: number, last: number): Promise<string[]> => {
        const [fromBlock, toBlock] = [numberToHex(first), numberToHex(last)]
        const wanted = { address: asset, fromBlock, toBlock, topics }
        const logs = await evm.rpc<{ transactionHash: string }[]>('eth_getLogs', wanted).catch((error) => {
          if (first === last) throw error
        })
        if (logs !== undefined) return logs.map((log) => log.transactionHash)
        // More than an answer may hold.
        const middle = Math.floor((first + last) / 2)
        return [...(await between(first, middle)), ...(await between(middle + 1, last))]
      }
      return between(0, Number(await evm.blockNumber()))
    },
    hold: () => evm.setAutomine(false),
    async release() {
      await evm.setAutomine(true)
      await evm.mine()
    },
  }
}

function solanaChain(solana: LocalSolana, rpc: FaultyRpc): Chain {
  const ask = createJsonRpcClient(solana.rpcUrl)
  return {
    name: 'solana',
    network: solana.network as Chain['network'],
    rpc,
    methods: {
      broadcast: 'sendTransaction',
      status: 'getSignatureStatuses',
      verify: 'simulateTransaction',
    },
    usdc: solana.usdcMint,
    balance: async (owner, asset = solana.usdcMint) => solana.balanceToken(asset, owner),
    async transfersTo(owner, asset = solana.usdcMint) {
      const found: string[] = []
      for (;;) {
        const options = { limit: 1000, commitment: 'confirmed', before: found.at(-1) }
        const params = [solana.ataAddress(owner, asset), options]
        const page = await ask<{ signature: string; err: unknown }[]>('getSignaturesForAddress', ...params)
        for (const { signature, err } of page) if (err === null) found.push(signature)
        if (page.length < 1000) return found.reverse()
      }
    },
    hold: async () => solana.hold(),
    release: async () => void solana.release(),
  }
}

export interface SellerWallets {
  readonly base: string
  readonly solana: string
  /** Solana's usual 64 bytes; the local EVM chain needs no key to send from an address. */
  readonly solanaSecret: Uint8Array
}

/** A seller's wallets, fresh; the Solana one has its USDC account, because a payment makes none. */
export function newSellerWallets(chains: Chains): SellerWallets {
  const base = privateKeyToAddress(generatePrivateKey())
  const solanaSecret = newSolanaSecret()
  const solana = base58.encode(solanaSecret.subarray(32))
  chains.solana.createAta(solana)
  return { base, solana, solanaSecret }
}
