import { createContext } from 'preact'
import { useContext } from 'preact/hooks'
import type { ApiClient } from '../desk/api.ts'

/** The store that is signed in. */
export interface SignedInStore {
  readonly id: string
  readonly username: string
  readonly displayName: string
  readonly avatarUrl: string
  readonly storeUrl: string
  readonly developerModeEnabled: boolean
}

/** What `GET /api/dashboard/session` and signing in answer. */
export interface SessionAnswer {
  readonly store: SignedInStore
  readonly csrfToken: string
  readonly endsAt: string
}

/** What every view of the dashboard has. */
export interface Seller {
  readonly ask: ApiClient
  /** Of the session that is shown. */
  readonly csrfToken: string
  readonly store: SignedInStore
  readonly serviceName: string
  readonly publicUrl: string
  /** Who is signed in has changed, such as its name: asks again. */
  readonly refresh: () => void
  readonly signOut: () => void
  /** Goes to another view. */
  readonly go: (path: string) => void
}

export const SellerContext = createContext<Seller | undefined>(undefined)

/** The seller of the view. */
export function useSeller(): Seller {
  const seller = useContext(SellerContext)
  if (seller === undefined) throw new Error('This view needs somebody who is signed in.')
  return seller
}
