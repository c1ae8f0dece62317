import type { CheckoutMessage, Completed, WidgetOptions } from './options.ts'

/** How often the page checks that the popup still exists, in ms. */
const POPUP_CHECK_MS = 500
/**
 * How often the payment session's status is polled after its popup can no longer be observed, in ms. It makes 20 of the 60
 * requests per minute that a payment session allows.
 */
const POLL_MS = 3_000
/**
 * Number of failed polls in a row after which the status counts as unknown. This page's origin may not be allowed to read it.
 */
const MAX_SILENT = 3

interface Checkout {
  end(): void
}

let current: Checkout | undefined

/** The widget's global object. It opens one checkout at a time. */
const widget = {
  /**
   * Opens the checkout. Call it inside the click. It resolves when the popup loads the checkout.
   * @throws {TypeError} for an invalid `checkoutUrl`, or the error of a promise that was passed
   */
  async open(options: WidgetOptions): Promise<void> {
    current?.end()
    const popup = options.mode === 'redirect' ? null : openPopup()
    if (popup === null) {
      location.assign(readUrl(await options.checkoutUrl))
      return
    }
    const checkout = follow(popup, options)
    current = checkout
    try {
      const url = readUrl(await options.checkoutUrl)
      if (current === checkout && !popup.closed) checkout.goTo(url)
    } catch (error) {
      checkout.end()
      throw error
    }
  },

  /** Closes the popup. A payment that was already sent continues. */
  close(): void {
    current?.end()
  },
}

/**
 * Opens an empty window inside the click. Null if the browser blocks it. With these features it is a window of its own, but
 * phones open a tab.
 */
function openPopup(): Window | null {
  const [width, height] = [480, 780]
  const left = Math.max(0, screenX + (outerWidth - width) / 2)
  const top = Math.max(0, screenY + (outerHeight - height) / 2)
  return window.open('', '_blank', `popup,width=${width},height=${height},left=${left},top=${top}`)
}

function readUrl(text: string): URL {
  const url = new URL(text, location.href)
  if (/^https?:$/.test(url.protocol) && /\/pay\/checkout\/[^/]+$/.test(url.pathname)) return url
  throw new TypeError('Expected the checkoutUrl of a payment session.')
}

/** Follows one popup from the click to its end, and reports the outcome to the shop. */
function follow(popup: Window, options: WidgetOptions): Checkout & { goTo(url: URL): void } {
  let url: URL | undefined
  /**
   * True if the checkout has sent a message. If the window closes after that, the buyer has closed it, and it is not only cut
   * off.
   */
  let isHeard = false
  let isSettled = false
  let isOver = false
  let silent = 0
  let timer: ReturnType<typeof setTimeout> | undefined

  const complete = (completed: Completed) => {
    if (isSettled) return
    isSettled = true
    call(options.onComplete, completed)
  }
  const cancel = () => {
    if (isSettled) return
    isSettled = true
    call(options.onCancel)
  }
  const end = () => {
    if (isOver) return
    isOver = true
    clearTimeout(timer)
    removeEventListener('message', onMessage)
    if (current?.end === end) current = undefined
    popup.close()
    call(options.onClose)
  }
  const onMessage = (event: MessageEvent<CheckoutMessage | null>) => {
    if (url === undefined || event.source !== popup || event.origin !== url.origin) return
    const message = event.data
    if (message === null || typeof message !== 'object' || message.sessionId !== sessionIdOf(url)) return
    isHeard = true
    if (message.type === 'tollgate:complete') complete(onlyKnown(message.completed))
    if (message.type === 'tollgate:cancel') cancel()
  }

  /**
   * A window that seems closed may only be cut off by a Cross-Origin-Opener-Policy on either side. The payment session's status
   * is then polled until the session has ended.
   */
  const poll = async () => {
    if (!popup.closed) return again(POPUP_CHECK_MS)
    if (url === undefined || isSettled) return end()
    const status = await fetchStatus(url)
    if (isOver) return
    silent = status === undefined ? silent + 1 : 0
    if (status?.status === 'confirmed') complete(status.completed)
    if (status?.status === 'canceled') cancel()
    const mayGoOn = status?.status === 'open' && (!isHeard || status.processing === true)
    if (mayGoOn || (status === undefined && silent < MAX_SILENT)) return again(POLL_MS)
    end()
  }
  const again = (afterMs: number) => {
    timer = setTimeout(poll, afterMs)
  }

  addEventListener('message', onMessage)
  again(POPUP_CHECK_MS)
  return {
    end,
    goTo(to) {
      url = to
      popup.location.replace(to.href)
    },
  }
}

interface Status {
  readonly status: string
  readonly processing: boolean
  readonly completed: Completed
}

/** The payment session's status. Undefined if it cannot be read. */
async function fetchStatus(checkout: URL): Promise<Status | undefined> {
  try {
    const base = checkout.href.split('/pay/checkout/')[0]
    const cs = encodeURIComponent(checkout.searchParams.get('cs') ?? '')
    const response = await fetch(`${base}/api/v1/payments/${sessionIdOf(checkout)}?cs=${cs}`)
    const { data } = await response.json()
    const { id, status, processing } = data
    return { status, processing, completed: onlyKnown({ ...data, sessionId: id }) }
  } catch {
    return undefined
  }
}

const sessionIdOf = (checkout: URL): string => checkout.pathname.split('/').pop()!

const onlyKnown = (given: Completed): Completed => ({
  sessionId: given.sessionId,
  purchaseId: given.purchaseId,
  txHash: given.txHash,
  chain: given.chain,
  amount: given.amount,
  clientReferenceId: given.clientReferenceId ?? null,
})

/** Calls the shop's callback. An exception in it stops nothing here, and is reported like any uncaught error. */
function call<T extends unknown[]>(listener: ((...given: T) => void) | undefined, ...given: T): void {
  try {
    listener?.(...given)
  } catch (error) {
    setTimeout(() => {
      throw error
    })
  }
}

const name = (document.currentScript as HTMLScriptElement | null)?.dataset['global'] || 'Tollgate'
Object.assign(window, { [name]: widget })
