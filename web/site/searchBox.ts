import { useEffect, useState } from 'preact/hooks'
import { browser } from '../browser.ts'
import { Button, Icon } from '../components/button.ts'
import { html } from '../html.ts'
import { island } from '../island/island.ts'

/** How long the reader must stop typing before suggestions are requested, in ms. */
const PAUSE_MS = 180
const SUGGESTED = 6
const MIN_LETTERS = 2

export interface SearchBoxProps {
  readonly value: string
}

interface Suggestion {
  readonly title: string
  readonly href: string
  readonly seller: string
  readonly price: string
}

interface Found {
  readonly results: readonly {
    readonly title: string
    readonly endpoint: string
    readonly price: string
    readonly priceMax?: string
    readonly seller: { readonly displayName: string }
  }[]
}

/** Requests suggestions. If no response comes in time, there are none, but the search button still works. */
async function suggest(words: string, signal: AbortSignal): Promise<Suggestion[]> {
  const query = new URLSearchParams({ q: words, limit: String(SUGGESTED) })
  const response = await fetch(`/api/discover?${query}`, { signal })
  if (!response.ok) return []
  const { results } = (await response.json()) as Found
  return results.map(({ title, endpoint, price, priceMax, seller }) => ({
    title,
    price: /[1-9]/.test(price)
      ? `${priceMax === undefined ? '' : priceMax === price ? 'up to ' : 'from '}${price} USDC`
      : 'Free',
    seller: seller.displayName,
    href: endpoint.replace(/^\/api\/link/, ''),
  }))
}

/** A combobox as in the ARIA guide (APG, "editable combobox with list autocomplete"). Arrow keys select, and Enter follows. */
function SearchBoxView({ value }: SearchBoxProps) {
  const [words, setWords] = useState(value)
  const [isOpen, setOpen] = useState(false)
  const [found, setFound] = useState<readonly Suggestion[]>([])
  const [chosen, setChosen] = useState(-1)
  const isSearching = isOpen && words.trim().length >= MIN_LETTERS
  useEffect(() => {
    setChosen(-1)
    if (!isSearching) return setFound([])
    const stop = new AbortController()
    const timer = browser.setTimeout(
      () => void suggest(words, stop.signal).then(setFound, () => undefined),
      PAUSE_MS,
    )
    return () => {
      browser.clearTimeout(timer)
      stop.abort()
    }
  }, [words, isSearching])

  const isShown = isSearching && found.length > 0
  const press = (event: { key: string; preventDefault(): void }) => {
    if (!isShown) return
    if (event.key === 'Escape') {
      // Escape closes the list. By default, browsers would also clear the field.
      event.preventDefault()
      setOpen(false)
    }
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault()
      const step = event.key === 'ArrowDown' ? 1 : -1
      // The position after the last suggestion is the field itself.
      setChosen((before) => ((before + 1 + step + found.length + 1) % (found.length + 1)) - 1)
    }
    const suggestion = found[chosen]
    if (event.key === 'Enter' && suggestion) {
      event.preventDefault()
      browser.location.assign(suggestion.href)
    }
  }
  return html`<div class="search">
    <label class="visually-hidden" for="q">Search links</label>
    <${Icon} name="search" />
    <input
      class="input"
      id="q"
      name="q"
      type="search"
      maxlength="200"
      placeholder="What do you need?"
      autocomplete="off"
      dir="auto"
      role="combobox"
      aria-expanded=${isShown ? 'true' : 'false'}
      aria-controls="suggestions"
      aria-autocomplete="list"
      aria-activedescendant=${isShown && chosen >= 0 ? `suggestion-${chosen}` : undefined}
      value=${words}
      onInput=${(event: Event) => {
        setWords((event.target as unknown as { value: string }).value)
        setOpen(true)
      }}
      onKeyDown=${press}
      onBlur=${() => setOpen(false)}
    />
    <${Button} kind="primary" type="submit">Search<//>
    <ul class="suggestions" id="suggestions" role="listbox" aria-label="Suggestions" hidden=${!isShown}>
      ${found.map(
        ({ title, href, seller, price }, i) => html`<li
          role="option"
          id=${`suggestion-${i}`}
          aria-selected=${i === chosen ? 'true' : 'false'}
          onMouseDown=${(event: { preventDefault(): void }) => event.preventDefault()}
          onClick=${() => browser.location.assign(href)}
        ><span class="what"><bdi>${title}</bdi> <span class="soft small">by <bdi>${seller}</bdi></span></span><span class="number small">${price}</span></li>`,
      )}
    </ul>
  </div>`
}

/** The marketplace's search field. With JavaScript, it has suggestions. */
export const SearchBox = island('search-box', SearchBoxView)
