import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { html } from '../html.ts'
import { findWallets } from '../wallets/findWallets.ts'
import type { Wallet } from '../wallets/wallet.ts'
import type { CheckoutMessage, Completed } from '../widget/options.ts'
import type { CheckoutActions } from './actions.ts'
import { CheckoutView } from './checkoutView.ts'
import { payWith } from './payWith.ts'
import { ApiFault, type SessionApi, sessionApi } from './sessionApi.ts'
import {
  type CheckoutProps,
  type CheckoutSession,
  type CheckoutState,
  chosenOffer,
  completedOf,
  firstState,
  payableOffer,
  screenOf,
  wasCharged,
} from './state.ts'
import {
  forgetPaid,
  forgetReviewToken,
  paidHere,
  rememberLedBack,
  rememberPaid,
  reviewTokenOf,
  wasLedBack,
} from './tabMemory.ts'

/** How long the page waits for wallets before it reports that there are none, in ms. */
const WALLETS_MS = 700
/** How long the receipt is shown before the buyer is sent back to the shop, in ms. */
const RETURN_MS = 6_000

export function CheckoutApp(props: CheckoutProps & { readonly secret: string }) {
  const { session: first, offers, secret } = props
  const [state, setState] = useState<CheckoutState>(() => firstState(props))
  /** The current state, for work that spans several renders. */
  const now = useRef(state)
  now.current = state
  const found = useRef<readonly Wallet[]>([])
  /** The last press of a wallet button, and whether its payment was sent. */
  const attempt = useRef({ isSent: true })
  const change = (part: Partial<CheckoutState>) => setState((before) => ({ ...before, ...part }))
  const { api, opener } = useMemo(
    () => ({ api: sessionApi(first.id, secret), opener: openerOf(first) }),
    [first.id, secret],
  )
  const take = (session: CheckoutSession) => {
    opener.tell(session)
    change({ session })
  }

  useEffect(() => {
    change({ isPopup: opener.isThere, sentBy: paidHere(first.id), reviewToken: reviewTokenOf(first.id) })
    opener.ready()
    opener.tell(first)
    const stopFollowing = first.status === 'open' ? api.follow(take) : () => {}
    const stopFinding = findWallets((wallets) => {
      found.current = wallets
      setState((before) => ({ ...before, wallets, chosen: before.chosen ?? payableOffer(offers, wallets) }))
    })
    const timer = setTimeout(() => change({ wallets: found.current }), WALLETS_MS)
    return () => {
      clearTimeout(timer)
      stopFinding()
      stopFollowing()
    }
  }, [api])

  const screen = screenOf(state, offers)
  useScreen(screen, state)
  useReturn(screen, state)

  const actions: CheckoutActions = {
    choose: (chosen) => change({ chosen }),
    selectMethod: (selected) => change({ selected }),
    leaveWallet() {
      if (attempt.current.isSent) return
      attempt.current = { isSent: true }
      change({ phase: { at: 'choosing' } })
    },
    retry: () => change({ phase: { at: 'choosing' } }),
    closeWindow: () => window.close(),
    forgetReview: () => forgetReviewToken(first.id),
    cancel: () => void cancel(api, opener, change, take),
    async pay(walletId) {
      const wallet = found.current.find(({ id }) => id === walletId)
      const offer = chosenOffer(now.current, offers)
      // A second press starts nothing, and neither does a press after another window has paid.
      if (wallet === undefined || offer === undefined || screenOf(now.current, offers) !== 'pay') return
      const mine = { isSent: false }
      attempt.current = mine
      const isLeft = () => attempt.current !== mine
      const isOver = () => isLeft() || now.current.session.status !== 'open'
      const end = await payWith(
        wallet,
        offer,
        api,
        (phase) => isLeft() || change({ phase }),
        (sentBy) => {
          mine.isSent = true
          rememberPaid(first.id, sentBy)
          change({ sentBy })
        },
        isOver,
      )
      if (end === 'unknown' || isLeft()) return
      if (typeof end === 'object' && 'kind' in end && wasCharged(end))
        return change({ phase: { at: 'stopped', fault: end } })
      if (end === 'elsewhere' || 'kind' in end) forgetPaid(first.id)
      if (end === 'elsewhere') {
        change({ phase: { at: 'choosing' }, sentBy: null })
        return void api.read().then(take, () => undefined)
      }
      if ('kind' in end) return change({ phase: { at: 'stopped', fault: end }, sentBy: null })
      change({ reviewToken: reviewTokenOf(first.id) })
      take(end)
    },
  }

  return html`<${CheckoutView} ...${props} state=${state} actions=${actions} />`
}

async function cancel(
  api: SessionApi,
  opener: Opener,
  change: (part: Partial<CheckoutState>) => void,
  take: (session: CheckoutSession) => void,
): Promise<void> {
  change({ isCanceling: true })
  try {
    const session = await api.cancel()
    take(session)
    if (opener.isThere) window.close()
  } catch (error) {
    const message =
      error instanceof ApiFault && error.message !== ''
        ? error.message
        : 'The payment could not be canceled. Try again.'
    const requestId = error instanceof ApiFault ? error.requestId : undefined
    await api
      .read()
      .then(take, () => change({ phase: { at: 'stopped', fault: { kind: 'failed', message, requestId } } }))
  }
  change({ isCanceling: false })
}

/** Moves the focus and updates the title when the screen changes, so that screen readers announce it. */
function useScreen(screen: string, { session, phase }: CheckoutState): void {
  const isFirst = useRef(true)
  const what = `${screen} ${phase.at}`
  useEffect(() => {
    const words: Readonly<Record<string, string>> = {
      paid: 'Paid',
      paid_elsewhere: 'Paid',
      expired: 'Expired',
      canceled: 'Canceled',
      failed: 'Failed',
      progress: 'Paying',
    }
    document.title = `${words[screen] ?? 'Pay'} · ${session.item.title}`
    if (isFirst.current) isFirst.current = false
    else document.querySelector<HTMLElement>('.checkout-screen h2')?.focus()
  }, [what])
}

/** Sends a buyer who paid in this tab once to the shop, or to what they bought. Does nothing in a popup. */
function useReturn(screen: string, { session, isPopup, sentBy }: CheckoutState): void {
  const url = session.successUrl ?? session.link?.url ?? null
  const isDue = screen === 'paid' && sentBy !== null && !isPopup && url !== null
  useEffect(() => {
    if (!isDue) return
    if (wasLedBack(session.id)) return
    const timer = setTimeout(() => {
      rememberLedBack(session.id)
      location.assign(url)
    }, RETURN_MS)
    const stay = () => clearTimeout(timer)
    // If the buyer touches the receipt, they are reading it, so the redirect is canceled.
    for (const event of ['pointerdown', 'keydown']) addEventListener(event, stay, { once: true })
    return stay
  }, [isDue])
}

/** The shop's page that opened this window, if it can be reached. */
interface Opener {
  /** True if the opener exists and the session names its origin. */
  readonly isThere: boolean
  ready(): void
  /** Posts the session's outcome. Each outcome is posted once. */
  tell(session: CheckoutSession): void
}

/**
 * Finds the page that opened this one. It posts messages only to `allowedOrigin`, so that the browser does not deliver them to
 * a page of another origin.
 */
function openerOf(session: CheckoutSession): Opener {
  const { allowedOrigin, id: sessionId } = session
  const opener = window.opener as Window | null
  const reported = new Set<string>()
  const post = (message: CheckoutMessage) => {
    if (opener === null || allowedOrigin === null || reported.has(message.type)) return
    reported.add(message.type)
    opener.postMessage(message, allowedOrigin)
  }
  return {
    isThere: opener !== null && allowedOrigin !== null,
    ready: () => post({ type: 'tollgate:ready', sessionId }),
    tell(now) {
      if (now.status === 'confirmed')
        post({ type: 'tollgate:complete', sessionId, completed: completedOf(now) as Completed })
      if (now.status === 'canceled') post({ type: 'tollgate:cancel', sessionId })
    },
  }
}
