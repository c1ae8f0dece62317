import { base58 } from '@scure/base'
import type { Page } from 'playwright-core'
import { hexToString } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { readSigningKey } from '../../../../core/solana/ed25519.ts'
import { readMessage } from '../../../../core/solana/message.ts'
import { readWireTransaction } from '../../../../core/solana/wire.ts'
import { createJsonRpcClient } from '../../../../localnet/jsonRpcClient.ts'

/** What a test makes a wallet do, and what was asked of it. */
export interface WalletMood {
  /** Methods that the wallet's owner says no to. */
  readonly declines: Set<string>
  /** Methods in the order in which they came. */
  readonly requests: string[]
  /** EVM: the network that it is on. */
  chainId: number
}

/** A wallet that signs for real with a key of a local chain. What it throws is as wallets throw it. */
export interface TestWallet {
  readonly family: 'eip155' | 'solana'
  readonly address: string
  readonly mood: WalletMood
  /** EIP-1193 for EVM; `connect`, `signTransaction`, `signMessage` with bytes as base64 for Solana. */
  request(args: { method: string; params?: readonly unknown[] }): Promise<unknown>
}

/** The first request is refused by the wallet's owner. */
class Declined extends Error {
  readonly code = 4001
}

const newMood = (chainId = 0): WalletMood => ({ declines: new Set(), requests: [], chainId })

function heed(mood: WalletMood, method: string): void {
  mood.requests.push(method)
  if (mood.declines.has(method)) throw new Declined('User rejected the request.')
}

/** @param known networks that the wallet knows; it is on the first */
export function evmTestWallet(
  privateKey: string,
  rpcUrl: string,
  known: readonly [number, ...number[]] = [84532],
): TestWallet {
  const account = privateKeyToAccount(privateKey as `0x${string}`)
  const mood = newMood(known[0])
  const node = createJsonRpcClient(rpcUrl)
  const networks = new Set<number>(known)
  return {
    family: 'eip155',
    address: account.address,
    mood,
    async request({ method, params = [] }) {
      heed(mood, method)
      const [first, second] = params as [{ chainId: string }, string]
      switch (method) {
        case 'eth_requestAccounts':
        case 'eth_accounts':
          return [account.address]
        case 'eth_chainId':
          return `0x${mood.chainId.toString(16)}`
        case 'wallet_addEthereumChain':
          networks.add(Number(first.chainId))
          mood.chainId = Number(first.chainId)
          return null
        case 'wallet_switchEthereumChain':
          if (!networks.has(Number(first.chainId)))
            throw Object.assign(new Error('Unrecognized chain ID.'), { code: 4902 })
          mood.chainId = Number(first.chainId)
          return null
        case 'eth_signTypedData_v4': {
          const typedData = JSON.parse(second)
          if (typedData.domain.chainId !== mood.chainId)
            throw Object.assign(new Error('The chain of the data is not the active one.'), { code: -32602 })
          return account.signTypedData(typedData)
        }
        case 'personal_sign':
          return account.signMessage({ message: hexToString(first as unknown as `0x${string}`) })
        default:
          return node(method, ...params)
      }
    },
  }
}

/**
 * @param secret 64 bytes, as Solana's tools write them
 * @param rpcUrl of the node that it sends by
 */
export function solanaTestWallet(secret: Uint8Array, rpcUrl = ''): TestWallet {
  const key = readSigningKey(secret)!
  const mood = newMood()
  return {
    family: 'solana',
    address: key.address,
    mood,
    async request({ method, params = [] }) {
      heed(mood, method)
      const bytes = Buffer.from(String(params[0] ?? ''), 'base64')
      if (method === 'connect') return key.address
      if (method === 'signMessage') return Buffer.from(key.sign(bytes)).toString('base64')
      if (!['signTransaction', 'signAndSendTransaction'].includes(method))
        throw new Error(`unexpected ${method}`)
      const { message } = readWireTransaction(bytes)!
      const own = readMessage(message)!.keys.findIndex((one) => base58.encode(one) === key.address)
      const signed = Buffer.from(bytes)
      signed.set(key.sign(message), 1 + 64 * own)
      const text = signed.toString('base64')
      if (method === 'signTransaction') return text
      const sent = await createJsonRpcClient(rpcUrl)<string>('sendTransaction', text, { encoding: 'base64' })
      return Buffer.from(base58.decode(sent)).toString('base64')
    },
  }
}

/** Puts wallets into every page of the tab's context before its own scripts run, as extensions do. */
export async function giveWallets(page: Page, wallets: readonly TestWallet[]): Promise<void> {
  await page.context().exposeFunction('askTestWallet', async (index: number, args: { method: string }) => {
    try {
      return { result: await wallets[index]!.request(args) }
    } catch (error) {
      const { code, message } = error as { code?: number; message: string }
      return { error: { code, message } }
    }
  })
  const described = wallets.map(({ family, address }, index) => ({
    index,
    family,
    address,
    name: `${family === 'solana' ? 'Solana' : 'Base'} test wallet`,
  }))
  await page.context().addInitScript(announce, described)
}

interface Described {
  readonly index: number
  readonly family: string
  readonly address: string
  readonly name: string
}

/** Runs in the page: it stands by itself. */
function announce(wallets: readonly Described[]): void {
  // biome-ignore lint/suspicious/noExplicitAny: the page's own global, which Node's types do not know
  const page = globalThis as any
  const icon = `data:image/svg+xml,${encodeURIComponent('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><circle cx="4" cy="4" r="4" fill="#557"/></svg>')}`
  const ask = async (index: number, method: string, params: unknown[] = []) => {
    const { result, error } = await page.askTestWallet(index, { method, params })
    if (error) throw Object.assign(new Error(error.message), { code: error.code })
    return result
  }
  const toText = (bytes: Uint8Array) => btoa(String.fromCharCode(...bytes))
  const toBytes = (text: string) => Uint8Array.from(atob(text), (message) => message.charCodeAt(0))

  for (const { index, family, name, address } of wallets) {
    if (family === 'eip155') {
      const info = {
        uuid: `00000000-0000-4000-8000-00000000000${index}`,
        name,
        icon,
        rdns: `test.wallet${index}`,
      }
      const provider = {
        request: (args: { method: string; params?: unknown[] }) => ask(index, args.method, args.params),
      }
      const tell = () =>
        page.dispatchEvent(
          new page.CustomEvent('eip6963:announceProvider', { detail: Object.freeze({ info, provider }) }),
        )
      page.addEventListener('eip6963:requestProvider', tell)
      tell()
      continue
    }
    const chains = ['solana:mainnet', 'solana:devnet']
    const account = {
      address,
      publicKey: new Uint8Array(32),
      chains,
      features: ['solana:signTransaction', 'solana:signMessage'],
    }
    const wallet = {
      version: '1.0.0',
      ...{ name, icon, chains, accounts: [account] },
      features: {
        'standard:connect': {
          version: '1.0.0',
          connect: async () => {
            await ask(index, 'connect')
            return { accounts: [account] }
          },
        },
        'solana:signTransaction': {
          version: '1.0.0',
          supportedTransactionVersions: ['legacy', 0],
          signTransaction: async ({ transaction }: { transaction: Uint8Array }) => [
            { signedTransaction: toBytes(await ask(index, 'signTransaction', [toText(transaction)])) },
          ],
        },
        'solana:signAndSendTransaction': {
          version: '1.0.0',
          supportedTransactionVersions: ['legacy', 0],
          signAndSendTransaction: async ({ transaction }: { transaction: Uint8Array }) => [
            { signature: toBytes(await ask(index, 'signAndSendTransaction', [toText(transaction)])) },
          ],
        },
        'solana:signMessage': {
          version: '1.0.0',
          signMessage: async ({ message }: { message: Uint8Array }) => [
            {
              signedMessage: message,
              signature: toBytes(await ask(index, 'signMessage', [toText(message)])),
            },
          ],
        },
      },
    }
    const register = ({ register: add }: { register: (one: unknown) => void }) => add(wallet)
    page.addEventListener('wallet-standard:app-ready', (event: { detail: never }) => register(event.detail))
    page.dispatchEvent(new page.CustomEvent('wallet-standard:register-wallet', { detail: register }))
  }
}
