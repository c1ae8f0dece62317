import { Mark } from '../components/mark.ts'
import { type Children, html } from '../html.ts'

/** One entry of the way around. */
export interface NavEntry {
  readonly href: string
  readonly title: string
  /** How many things wait there. */
  readonly count?: number
}

export interface FrameProps {
  readonly serviceName: string
  /** What this part of the service is called, beside its name. */
  readonly part: string
  /** Where the name leads. */
  readonly home: string
  readonly entries: readonly NavEntry[]
  /** The address of the entry that is shown. */
  readonly current?: string | undefined
  /** Whose it is, at the foot of the way around. */
  readonly owner?: Children
  readonly children?: Children
}

/**
 * The frame of the pages that somebody works in: the way around beside the view, or above it where the window is narrow. The
 * server writes it as it will stand, so that nothing moves when the view comes.
 */
export const Frame = ({ serviceName, part, home, entries, current, owner, children }: FrameProps) =>
  html`<div class=${entries.length === 0 ? 'desk lone' : 'desk'}>
    <header class="desk-side">
      <a class="skip" href="#main">Skip to the content</a>
      <a class="brand" href=${home}><${Mark} /><span>${serviceName}</span><span class="soft desk-part">${part}</span></a>
      ${
        entries.length > 0 &&
        html`<nav class="desk-nav" aria-label=${part}>
          ${entries.map(
            ({ href, title, count }) =>
              html`<a href=${href} aria-current=${href === current ? 'page' : undefined}>
                ${title}${count !== undefined && count > 0 && html`<span class="badge" data-tone="warn">${count}<span class="visually-hidden"> to look at</span></span>`}
              </a>`,
          )}
        </nav>`
      }
      ${owner && html`<div class="desk-owner">${owner}</div>`}
    </header>
    <main class="desk-main" id="main" tabindex="-1">${children}</main>
  </div>`
