import type { Store } from '../../core/domain/store.ts'
import { TollgateError } from '../../core/errors/error.ts'
import type { Api } from '../deps.ts'
import { reservedUsername } from '../stores/username.ts'
import { type SignedChange, type Signer, signInWallets } from './storeProof.ts'

/**
 * Reads the name that was sent.
 *
 * @returns undefined when it is the one that the store has
 * @throws `VALIDATION_ERROR` for a reserved one
 */
export function readRename(api: Api, store: Store, username: string): string | undefined {
  if (username === store.username) return undefined
  if (api.isReservedUsername(username)) throw reservedUsername()
  return username
}

/** Whether the store's wallet has to sign a rename: buyers know the names of a store that has sold. */
export const needsSignature = (api: Api, { id }: Store): Promise<boolean> => api.stores.hasSold(id)

/** The rename as the store's wallet signs it. @throws `FORBIDDEN` where no wallet can */
export const signedRename = async (api: Api, store: Store, username: string): Promise<SignedChange> => ({
  field: 'username',
  statement: `Rename the store @${store.username} to @${username}. Its links move to the new name, and the old one leads there for 30 days. Signing costs nothing.`,
  signers: await renameSigners(api, store),
})

/** The wallets that sign in to the store; of one that the operator opened, the wallets that are paid. */
async function renameSigners(api: Api, store: Store): Promise<readonly Signer[]> {
  const signIn = await signInWallets(api, store)
  if (signIn.length > 0) return signIn
  const { base, solana } = store.payout
  const paid: Signer[] = []
  if (base !== null) paid.push({ chain: 'base', address: base })
  if (solana !== null) paid.push({ chain: 'solana', address: solana })
  if (paid.length > 0) return paid
  throw new TollgateError(
    'FORBIDDEN',
    `No wallet can sign for this: none signs in to your store, and none is paid. Ask the operator, who names one with: tollgate store payout ${store.username} --base ADDRESS.`,
  )
}
