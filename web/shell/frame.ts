import { Mark } from '../components/button.ts'
import { type Children, html } from '../html.ts'

interface TitleProps {
  readonly children: Children
  /** The parent view, shown above the title. */
  readonly from?: { readonly href: string; readonly title: string }
  /** One or two buttons, shown beside the title. */
  readonly actions?: Children
}

/** The heading of a view. */
export const Title = ({ children, from, actions }: TitleProps) =>
  html`<header class="shell-title">
    <div>
      ${from && html`<a class="shell-back" href=${from.href}>← ${from.title}</a>`}
      <h1 dir="auto">${children}</h1>
    </div>
    ${actions && html`<div class="row">${actions}</div>`}
  </header>`

/** One entry of the navigation. */
export interface NavEntry {
  readonly href: string
  readonly title: string
  /** Number of items that need attention in this view. */
  readonly count?: number
}

export interface FrameProps {
  readonly serviceName: string
  /** Name of this part of the gateway, shown beside the gateway's name. */
  readonly part: string
  /** The address to which the gateway's name links. */
  readonly home: string
  readonly entries: readonly NavEntry[]
  /** Address of the current entry. */
  readonly current?: string | undefined
  /** The signed-in user, shown below the navigation. */
  readonly owner?: Children
  readonly children?: Children
}

/**
 * The frame of the signed-in pages, with the navigation beside the view. In a narrow window, the navigation is above the view.
 * The server renders the same frame, so nothing moves when the view appears.
 */
export const Frame = ({ serviceName, part, home, entries, current, owner, children }: FrameProps) =>
  html`<div class=${entries.length === 0 ? 'shell lone' : 'shell'}>
    <header class="shell-side">
      <a class="skip" href="#main">Skip to the content</a>
      <a class="brand" href=${home}><${Mark} /><span>${serviceName}</span><span class="soft shell-part">${part}</span></a>
      ${
        entries.length > 0 &&
        html`<nav class="shell-nav" aria-label=${part}>
          ${entries.map(
            ({ href, title, count }) =>
              html`<a href=${href} aria-current=${href === current ? 'page' : undefined}>
                ${title}${count !== undefined && count > 0 && html`<span class="badge" data-tone="warn">${count}<span class="visually-hidden"> to look at</span></span>`}
              </a>`,
          )}
        </nav>`
      }
      ${owner && html`<div class="shell-owner">${owner}</div>`}
    </header>
    <main class="shell-main" id="main" tabindex="-1">${children}</main>
  </div>`
