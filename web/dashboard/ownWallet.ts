import { ApiFault } from '../shell/api.ts'
import { findWallets } from '../wallets/findWallets.ts'
import { type ConnectedWallet, connectWallet } from '../wallets/signText.ts'
import type { Wallet } from '../wallets/wallet.ts'
import { useSeller } from './seller.ts'
import type { ProfileResponse } from './types.ts'

interface ToSign {
  readonly message: string
  readonly address: string
  readonly chain: 'base' | 'solana'
}

/**
 * Changes the profile. If the API requires it, the store's wallet signs the change of one field.
 *
 * @returns a function that throws {@link ApiFault}, or an error in words if no wallet in this browser can sign
 */
export function useSignedChange(field: 'payout' | 'username') {
  const { api } = useSeller()
  const patch = (body: object) => api<ProfileResponse>('PATCH', '/api/v1/profile', body)
  return async (body: Readonly<Record<string, unknown>>): Promise<ProfileResponse> => {
    try {
      return await patch(body)
    } catch (fault) {
      if (!(fault instanceof ApiFault) || fault.code !== 'WALLET_SIGNATURE_REQUIRED') throw fault
    }
    const path = `/api/v1/profile/${field}/nonce`
    const { message, address, chain } = await api<ToSign>('POST', path, { [field]: body[field] })
    const { connected } = await connectOwnWallet(address, chain)
    const signature = await connected.signText(message)
    return patch({ ...body, [`${field}Proof`]: { message, signature } })
  }
}

/** How long wallets have to announce themselves to the page, in ms. */
const DISCOVERY_MS = 600

interface OwnWallet {
  readonly wallet: Wallet
  readonly connected: ConnectedWallet
}

/**
 * Connects the wallet in this browser that has the seller's account.
 *
 * @throws {WalletFault} if a wallet declines, and an error in words if no wallet has this account selected
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
    `This action needs the wallet ${address}, but no wallet in this browser has that account selected. Select the account in your wallet and try again.`,
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
