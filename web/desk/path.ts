import { useEffect, useRef, useState } from 'preact/hooks'
import { hasUnsaved, type Leaving } from './unsaved.ts'

/** The address as views see it, and the way to another one without loading the page again. */
export interface Path {
  readonly path: string
  readonly query: URLSearchParams
  readonly go: (path: string) => void
  /** Does what leaves the view, after asking where something in it is not saved. */
  readonly leave: (then: () => void) => void
  /** The question that is open. */
  readonly leaving: Leaving | undefined
}

/** Follows the address; links below `root` change it without loading, unless they are opened elsewhere. */
export function usePath(root: string): Path {
  const [at, setAt] = useState(() => location.pathname + location.search)
  const [leaving, setLeaving] = useState<Leaving>()
  /** Which entry of the tab's history is shown, and whether the next move through it was decided here. */
  const shown = useRef({ entry: entryOf(history.state), isDecided: false })
  const leave = (then: () => void) => {
    if (!hasUnsaved()) return then()
    const close = () => setLeaving(undefined)
    setLeaving({
      stay: close,
      leave() {
        close()
        then()
      },
    })
  }
  const go = (to: string) => {
    shown.current.entry++
    history.pushState({ entry: shown.current.entry }, '', to)
    setAt(to)
    scrollTo(0, 0)
  }
  useEffect(() => {
    const back = () => {
      const moved = entryOf(history.state) - shown.current.entry
      const { isDecided } = shown.current
      shown.current.isDecided = false
      if (!isDecided && moved !== 0 && hasUnsaved()) {
        // The browser has left already: it goes back to the view that is shown, and asks from there.
        shown.current.isDecided = true
        history.go(-moved)
        return leave(() => {
          shown.current.isDecided = true
          history.go(moved)
        })
      }
      shown.current.entry += moved
      setAt(location.pathname + location.search)
    }
    const press = (event: MouseEvent) => {
      if (event.defaultPrevented || event.button !== 0) return
      if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return
      const link = (event.target as Element).closest?.('a')
      if (!link || link.origin !== location.origin || link.target !== '' || link.hasAttribute('download'))
        return
      if (link.pathname !== root && !link.pathname.startsWith(`${root}/`)) return
      event.preventDefault()
      leave(() => {
        go(link.pathname + link.search)
        // As after a page was loaded: a reader begins at the top of what is new.
        document.getElementById('main')?.focus()
      })
    }
    addEventListener('popstate', back)
    document.addEventListener('click', press)
    return () => {
      removeEventListener('popstate', back)
      document.removeEventListener('click', press)
    }
  }, [])
  const [path = root, search = ''] = at.split('?')
  return {
    ...{ path: path.replace(/\/+$/, '') || '/', query: new URLSearchParams(search) },
    ...{ go, leave, leaving },
  }
}

const entryOf = (state: unknown): number => (Object(state) as { entry?: number }).entry ?? 0
