import { useEffect, useState } from 'preact/hooks'
import { browser } from '../browser.ts'
import { type Children, html } from '../html.ts'
import { island } from '../island/island.ts'

export interface ButtonProps {
  readonly children: Children
  /** `warn` is for an action with a warning. It has no color until the action is ready. */
  readonly kind?: 'plain' | 'primary' | 'quiet' | 'danger' | 'warn'
  readonly size?: 'normal' | 'small'
  /** True while an action is running. The button then shows a spinner, informs screen readers, and ignores presses. */
  readonly isBusy?: boolean
  /** With an address, the component is a link that looks like a button. */
  readonly href?: string
  readonly type?: 'button' | 'submit'
  readonly onClick?: (event: Event) => unknown
  /** Additional CSS classes. */
  readonly class?: string
  readonly [attribute: string]: unknown
}

export function Button(props: ButtonProps) {
  const { children, kind = 'plain', size = 'normal', isBusy = false, href, onClick, ...rest } = props
  const { type = 'button', class: more = '', ...attributes } = rest
  const classes = ['button', kind !== 'plain' && kind, size === 'small' && size, more].filter(Boolean)
  if (href !== undefined) {
    return html`<a class=${classes.join(' ')} href=${href} ...${attributes}>${children}</a>`
  }
  // A busy button is not `disabled`, so that it keeps the focus.
  const press = isBusy ? (event: Event) => event.preventDefault() : onClick
  return html`<button
    class=${classes.join(' ')}
    type=${type}
    aria-busy=${isBusy ? 'true' : undefined}
    aria-disabled=${isBusy ? 'true' : undefined}
    onClick=${press}
    ...${attributes}
  >${children}</button>`
}

/** The logo, which is an opening gate and a coin. `styles/mark.svg` has the same logo on a tile. */
export const Mark = () =>
  html`<svg class="mark" viewBox="0 0 32 32" aria-hidden="true">
    <g fill="none" stroke="currentColor" stroke-width="3" stroke-linecap="round">
      <path d="M7 27V11M7 15.5L27 6.5M4 27h6" /><circle cx="21.5" cy="21.5" r="5" />
    </g>
  </svg>`

/** Stroke icons on a 24 × 24 grid. */
const paths = {
  search: 'M11 4a7 7 0 1 0 0 14a7 7 0 0 0 0-14zM16.5 16.5L21 21',
  check: 'M4.5 12.5l5 5l10-11',
  close: 'M6 6l12 12M18 6L6 18',
  arrow: 'M5 12h14M13 6l6 6l-6 6',
  external: 'M14 4h6v6M20 4l-9 9M18 14v5a1 1 0 0 1-1 1H5a1 1 0 0 1-1-1V7a1 1 0 0 1 1-1h5',
  star: 'M12 3.5l2.6 5.4l5.9.8l-4.3 4.1l1.1 5.9L12 16.8l-5.3 2.9l1.1-5.9L3.5 9.7l5.9-.8z',
  up: 'M7 14l5-5l5 5',
  down: 'M7 10l5 5l5-5',
  thumbUp: 'M7 11v9H4v-9zM7 11l4-8a2.2 2.2 0 0 1 2.2 2.2V9h5.3a2 2 0 0 1 2 2.3l-1.2 7A2 2 0 0 1 17.3 20H7',
  thumbDown: 'M7 13V4H4v9zM7 13l4 8a2.2 2.2 0 0 0 2.2-2.2V15h5.3a2 2 0 0 0 2-2.3l-1.2-7A2 2 0 0 0 17.3 4H7',
  pulse: 'M3 12h4l3-7l4 14l3-7h4',
  bars: 'M5 20v-6M12 20V5M19 20v-10',
  shield: 'M12 3l7 3v5.5c0 4.4-3 7.8-7 9.5c-4-1.7-7-5.1-7-9.5V6zM8.8 12.2l2.2 2.2l4.2-4.4',
  warning: 'M12 4l9 16H3zM12 10v4.5M12 17v.5',
  bell: 'M6 17V11a6 6 0 0 1 12 0v6l1.5 1.5h-15zM10 21h4',
  plus: 'M12 5v14M5 12h14',
  send: 'M5 19L19 5M9 5h10v10',
  coin: 'M12 4a8 8 0 1 0 0 16a8 8 0 0 0 0-16zM12 8v8M9.5 14.5h3.7a1.7 1.7 0 0 0 0-3.4h-2.4a1.6 1.6 0 0 1 0-3.1h3.5',
  key: 'M8 10.5a4 4 0 1 0 0 8a4 4 0 0 0 0-8zM11 11.5L19.5 3M16 6.5l3 3',
  enter: 'M13 4h6v16h-6M4 12h10M10.5 8.5L14 12l-3.5 3.5',
  pen: 'M4 20l1-4L16.5 4.5l3 3L8 19zM4 20h16',
  eye: 'M3 12c2.5-4 5.5-6 9-6s6.5 2 9 6c-2.5 4-5.5 6-9 6s-6.5-2-9-6zM12 9.5a2.5 2.5 0 1 0 0 5a2.5 2.5 0 0 0 0-5z',
  save: 'M12 4v10M8 10.5l4 4l4-4M5 19h14',
  bin: 'M5 7h14M9.5 7V4.5h5V7M7 7l.8 12.5h8.4L17 7',
  call: 'M4 8h14M15 5l3 3l-3 3M20 16H6M9 13l-3 3l3 3',
  wallet: 'M4 7h14a2 2 0 0 1 2 2v9a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2V6a2 2 0 0 1 2-2h11v3M16.5 13.5h.010',
} as const

export type IconName = keyof typeof paths

/** A small icon beside words that say the same. */
export const Icon = ({ name }: { readonly name: IconName }) =>
  html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d=${paths[name]} /></svg>`

/** How long the button shows the outcome, in ms. */
const LABEL_MS = 2_000

export interface CopyButtonProps {
  readonly text: string
  /** Name of what is copied, for screen readers. */
  readonly what: string
}

/**
 * The button's element. If the browser refuses to copy, the code block beside it is selected, so that the reader can copy it by
 * hand.
 */
interface CopiedFrom {
  closest(selector: string): { querySelector(selector: string): object | null } | null
}

function CopyButtonView({ text, what }: CopyButtonProps) {
  const [label, setLabel] = useState<string>()
  useEffect(() => {
    if (label === undefined) return
    const timer = browser.setTimeout(() => setLabel(undefined), LABEL_MS)
    return () => browser.clearTimeout(timer)
  }, [label])
  const copy = async ({ currentTarget }: { readonly currentTarget: CopiedFrom }) => {
    // The clipboard is missing if the page was loaded from another machine over plain http.
    const isCopied = await browser.navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    )
    setLabel(isCopied ? 'Copied' : 'Not allowed')
    const shown = currentTarget.closest('.code')?.querySelector('code')
    if (!isCopied && shown) browser.getSelection()?.selectAllChildren(shown)
  }
  return html`<${Button} size="small" class="copy" onClick=${copy}>
    <span aria-live="polite">${label ?? 'Copy'}</span>${label === undefined && html`<span class="visually-hidden"> ${what}</span>`}
  <//>`
}

/** Copies a text and shows that it was copied. */
export const CopyButton = island('copy-button', CopyButtonView)
