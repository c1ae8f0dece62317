import { findWallets } from '../wallets/findWallets.ts'
import { type ConnectedWallet, connectWallet } from '../wallets/signText.ts'
import type { Wallet } from '../wallets/wallet.ts'

/** How long wallets get to announce themselves to the page. */
const DISCOVERY_MS = 600

interface OwnWallet {
  readonly wallet: Wallet
  readonly connected: ConnectedWallet
}

/**
 * Connects the wallet of this browser that has an account of the seller's.
 *
 * @throws {WalletFault} for a wallet that declines; an error in words where no wallet is on that account
 */
export async function connectOwnWallet(address: string, chain: 'base' | 'solana'): Promise<OwnWallet> {
  const family = chain === 'base' ? 'eip155' : 'solana'
  const isSame = (other: string) =>
    chain === 'base' ? other.toLowerCase() === address.toLowerCase() : other === address
  for (const wallet of (await discoverWallets()).filter((one) => one.family === family)) {
    const connected = await connectWallet(wallet)
    if (isSame(connected.address)) return { wallet, connected }
  }
  throw new Error(
    `This needs the wallet ${address}, and no wallet of this browser is on that account. Choose the account in your wallet and try again.`,
  )
}

function discoverWallets(): Promise<readonly Wallet[]> {
  let found: readonly Wallet[] = []
  const end = findWallets((wallets) => {
    found = wallets
  })
  return new Promise((resolve) =>
    setTimeout(() => {
      end()
      resolve(found)
    }, DISCOVERY_MS),
  )
}
