import { type Children, html } from '../html.ts'

export interface ButtonProps {
  readonly children: Children
  readonly kind?: 'plain' | 'primary' | 'quiet' | 'danger'
  readonly size?: 'normal' | 'small'
  /** Something is under way: it turns, says so to screen readers, and takes no second press. */
  readonly isBusy?: boolean
  /** With an address it is a link that looks like a button. */
  readonly href?: string
  readonly type?: 'button' | 'submit'
  readonly onClick?: (event: Event) => unknown
  /** More classes. */
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
  // Not `disabled` while busy: the focus stays where it is.
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
