import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { ApiClient } from '../shell/api.ts'

/** The signed-in store. */
export interface SignedInStore {
  readonly id: string
  readonly username: string
  readonly displayName: string
  readonly avatarUrl: string
  readonly storeUrl: string
  readonly developerModeEnabled: boolean
}

/** Response of `GET /api/dashboard/session`, and of a sign-in. */
export interface SessionResponse {
  readonly store: SignedInStore
  readonly csrfToken: string
  readonly endsAt: string
}

/** The data and functions that every view of the dashboard can use. */
export interface Seller {
  readonly api: ApiClient
  /** CSRF token of the browser session. */
  readonly csrfToken: string
  readonly store: SignedInStore
  readonly serviceName: string
  readonly publicUrl: string
  /** Reloads the signed-in store after a change, such as of its name. */
  readonly refresh: () => void
  readonly signOut: () => void
  /** Goes to another view. */
  readonly go: (path: string) => void
}

export const SellerContext = createContext<Seller | undefined>(undefined)

/** The signed-in seller. */
export function useSeller(): Seller {
  const seller = useContext(SellerContext)
  if (seller === undefined) throw new Error('This view needs a signed-in seller.')
  return seller
}
