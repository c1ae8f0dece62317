import type { Children } from '../../../web/html.ts'
import { notify } from './approvals/attention.ts'
import { call, hooks, Refusal, session } from './session.ts'
import { approvals } from './store.ts'
import { listen } from './stream.ts'

export interface Warning {
  readonly code: string
  readonly message: string
  readonly action?: string | null
}

/** The fields of `GET /v1/vault/status` that the page uses. */
export interface Status {
  readonly vault_id: string
  readonly locked: boolean
  readonly lock_reason: string | null
  readonly idle_locks_at: string | null
  readonly retry_after_ms: number
  readonly log_damage?: string | null
  readonly warnings?: readonly Warning[]
}

export interface PageState {
  readonly screen: 'none' | 'sign-in' | 'locked' | 'open'
  /** Why the owner has to sign in. */
  readonly problem?: string | undefined
  readonly status?: Status | undefined
  /** True if the event stream is lost. */
  readonly isLost: boolean
  /** A notice about an agent that needs no decision. */
  readonly notice?: string | undefined
  /** The dialog with a secret, which is shown once. It stays open when the view changes and when the vault locks. */
  readonly secret?: Children
}

const REFRESH_STATUS_MS = 30_000

let state: PageState = { screen: 'none', isLost: false }
const listeners = new Set<() => void>()
let stopListening = () => {}

function change(part: Partial<PageState>): void {
  state = { ...state, ...part }
  for (const listener of listeners) listener()
}

/** The current screen, and the owner's actions for the whole page. */
export const page = {
  get state(): PageState {
    return state
  },
  watch(listener: () => void): () => void {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  },
  start(): void {
    hooks.signedOut = () => signIn('You are signed out. Open a new link to sign in again.')
    hooks.locked = () => void enter()
    setInterval(() => {
      if (session.token !== null && !document.hidden) void refreshStatus()
    }, REFRESH_STATUS_MS)
    if (this.takeCode()) return
    if (session.token === null) signIn()
    else begin()
  },
  /**
   * Removes the code of a link from the address at once, and exchanges it for a browser session.
   * @returns whether there was a code
   */
  takeCode(): boolean {
    const code = /^#code=([A-Za-z0-9_-]{1,128})$/.exec(location.hash)?.[1]
    if (code === undefined) return false
    history.replaceState(null, '', location.pathname)
    session.drop()
    void call<{ token: string }>('POST', '/owner/sign-in', { code }).then(
      ({ token }) => {
        session.keep(token)
        begin()
      },
      (error: Error) => signIn(error.message),
    )
    return true
  },
  enter,
  lock: (): void => void call('POST', '/lock', {}).catch(enter),
  async signOut(): Promise<void> {
    await call('DELETE', '/owner/sessions').catch(() => {})
    signIn()
  },
  showSecret: (secret: Children): void => change({ secret }),
  dismissSecret: (): void => change({ secret: undefined }),
  dismissNotice: (): void => change({ notice: undefined }),
}

function signIn(problem?: string): void {
  session.drop()
  stopListening()
  approvals.clear()
  change({ screen: 'sign-in', problem, status: undefined, notice: undefined, isLost: false })
}

/** Follows the vault's events and shows its state, with a browser session. */
function begin(): void {
  stopListening()
  stopListening = listen({
    onopen() {
      change({ isLost: false })
      void enter()
    },
    onevent(type, data) {
      if (type === 'approval') approvals.apply(data)
      else if (type === 'notice') {
        change({ notice: data.text })
        notify('Tollgate vault', data.text, 'notice')
      } else void enter()
    },
    onlost: () => change({ isLost: true }),
  })
}

/** Shows whether the vault is locked or, if it is unlocked, the view in the address. A screen that is already shown stays. */
async function enter(): Promise<void> {
  const status = await refreshStatus()
  if (status === undefined) return
  if (status.locked) {
    approvals.clear()
    return change({ screen: 'locked' })
  }
  try {
    await approvals.load()
  } catch (error) {
    // Signed out, locked and unreachable have screens of their own.
    if (error instanceof Refusal) return
    throw error
  }
  change({ screen: 'open' })
}

/** @returns undefined if the vault did not respond */
async function refreshStatus(): Promise<Status | undefined> {
  const status = await call<Status>('GET', '/status').catch(() => undefined)
  if (status !== undefined) change({ status })
  return status
}
