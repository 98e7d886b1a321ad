/** The token for one device that a link may have, for whichever page takes part with it. */

/** The token for this device, if the link had one: behind #, so that no server ever sees it in an
 * address. It is taken out of the address at once (whoever is sent the link would use it up), and
 * kept for this tab only. */
export function givenToken(campaign: string): string | undefined {
  const key = `murmur-token ${campaign}`;
  const given = /^#token=([\x21-\x7e]+)$/.exec(location.hash)?.[1];
  try {
    if (given) sessionStorage.setItem(key, given);
    return given ?? sessionStorage.getItem(key) ?? undefined;
  } catch {
    return given; // no storage here: it works until the page is left
  } finally {
    if (given) history.replaceState(null, "", location.pathname + location.search);
  }
}
