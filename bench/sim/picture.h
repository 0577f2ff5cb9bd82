// What the screen shows, as a value: nodes with their cards and who is on them, pods with where
// they went or why they wait. read_picture takes it from API objects alone, that is, from what
// stands on Pods and Nodes, not from the extender's memory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/units.h"
#include "common/contract/contract.h"
#include "common/kube/objects.h"

namespace mgpu::sim {

struct Piece {
  std::size_t pod = 0;  // index into Picture::pods
  Share share;
};

struct CardPicture {
  CardIndex index;
  std::string model;
  Share capacity;
  bool healthy = true;
  std::vector<Piece> pieces;
};

struct NodePicture {
  std::string name;
  std::vector<CardPicture> cards;
};

struct PodPicture {
  PodRef ref;
  std::string asks;                  // "30 % 1024 MiB", "2 cards"; containers joined by " + "
  std::string node;                  // empty: waits
  kube::StringMap annotations;       // the contract's own, as they stand on the pod
  std::string reason;                // why it waits
  std::vector<std::string> details;  // the same, card by card
};

struct Picture {
  std::vector<NodePicture> nodes;
  std::vector<PodPicture> pods;
};

// `pods` in the order they are to be shown. Reasons and details are the caller's to add.
Picture read_picture(const std::vector<kube::Node>& nodes, const std::vector<kube::Pod>& pods,
                     const Contract& contract);

// One screen of text, lines ended by "\n". With `color`, ANSI colours; every pod has a letter, so
// that it reads without them too.
std::string draw(const Picture& picture, bool color);

}  // namespace mgpu::sim
