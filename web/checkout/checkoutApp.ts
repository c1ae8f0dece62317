import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { html } from '../html.ts'
import { findWallets } from '../wallets/findWallets.ts'
import type { Wallet } from '../wallets/wallet.ts'
import type { CheckoutActions } from './actions.ts'
import { CheckoutView } from './checkoutView.ts'
import { type Opener, openerOf } from './opener.ts'
import { payWith } from './payWith.ts'
import { ApiFault, type SessionApi, sessionApi } from './sessionApi.ts'
import {
  type CheckoutProps,
  type CheckoutSession,
  type CheckoutState,
  chosenOffer,
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

/** How long wallets are waited for before the page says that there are none, in ms. */
const WALLETS_MS = 700
/** How long the receipt is seen before the buyer is led back to the shop, in ms. */
const BACK_MS = 6_000

/** The checkout in the browser. */
export function CheckoutApp(props: CheckoutProps & { readonly secret: string }) {
  const { session: first, offers, secret } = props
  const [state, setState] = useState<CheckoutState>(() => firstState(props))
  /** For what runs over several renders. */
  const now = useRef(state)
  now.current = state
  const found = useRef<readonly Wallet[]>([])
  /** Which press of a wallet's button counts, and whether its payment was sent. */
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
  useWayBack(screen, state)

  const actions: CheckoutActions = {
    choose: (chosen) => change({ chosen }),
    showWay: (way) => change({ way }),
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
      // A second press, or another window, begins nothing.
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
      error instanceof ApiFault && error.message !== '' ? error.message : 'It could not be canceled now.'
    const requestId = error instanceof ApiFault ? error.requestId : undefined
    await api
      .read()
      .then(take, () => change({ phase: { at: 'stopped', fault: { kind: 'failed', message, requestId } } }))
  }
  change({ isCanceling: false })
}

/** What is new on the page gets the focus and the title, so that nobody has to look for it. */
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

/** Leads a buyer who has paid here to the shop, or else to what they bought, where the checkout is a page of its own; once. */
function useWayBack(screen: string, { session, isPopup, sentBy }: CheckoutState): void {
  const url = session.successUrl ?? session.link?.url ?? null
  const isDue = screen === 'paid' && sentBy !== null && !isPopup && url !== null
  useEffect(() => {
    if (!isDue) return
    if (wasLedBack(session.id)) return
    const timer = setTimeout(() => {
      rememberLedBack(session.id)
      location.assign(url)
    }, BACK_MS)
    const stay = () => clearTimeout(timer)
    // Whoever touches the receipt wants to read it.
    for (const event of ['pointerdown', 'keydown']) addEventListener(event, stay, { once: true })
    return stay
  }, [isDue])
}
